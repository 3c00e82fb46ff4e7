"""What `kafkawire broker --check` reports: facts about a broker's configuration, and findings.

A finding is an English sentence about one option, listener or folder. Only errors change the exit status; the other
kinds describe a broker that starts.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Finding", "FolderFacts", "Kind", "ListenerFacts", "OptionFacts", "Report"]


class Kind(Enum):
    """What a finding means for the broker; the order is that of the report."""

    #: The broker would not start.
    ERROR = "error"
    #: Records or the broker itself are open to others, or records can be lost.
    UNSAFE = "unsafe"
    #: The broker would run out of something, or needs attention at the next start.
    WARNING = "warning"
    #: An option that this broker ignores, as it is configured.
    WITHOUT_EFFECT = "without effect"


class Finding(NamedTuple):
    """One finding.

    Attributes:
        kind: see `Kind`.
        subject: the option, listener or folder.
        text: a sentence.
    """

    kind: Kind
    subject: str
    text: str


class ListenerFacts(NamedTuple):
    """A listener.

    Attributes:
        name: as in Kafka's `listeners`.
        protocol: Kafka's name of its security protocol.
        address: where it listens; port 0 stands for any free port.
        advertised: the address given to its clients.
        role: `clients`, `brokers`, or `clients and brokers`.
        logins: the ways to log in: SASL mechanisms, or `client certificates`.
    """

    name: str
    protocol: str
    address: str
    advertised: str
    role: str
    logins: tuple[str, ...] = ()


class FolderFacts(NamedTuple):
    """The folder for the broker's files.

    Attributes:
        path: the folder.
        exists: whether it exists; a start creates it.
        node_id: the id of the broker that owns it; None for a new folder.
        cluster_id: the id of that broker's cluster; None for a new folder.
        topics: the number of topics with a partition in the folder.
        partitions: the number of partitions.
        was_clean: whether the last broker to use the folder was stopped rather than killed; None for a new folder.
        free_bytes: the free space on its file system; None if unknown.
        size_bytes: the size of its file system; None if unknown.
    """

    path: str
    exists: bool
    node_id: str | None = None
    cluster_id: str | None = None
    topics: int = 0
    partitions: int = 0
    was_clean: bool | None = None
    free_bytes: int | None = None
    size_bytes: int | None = None


class OptionFacts(NamedTuple):
    """An option whose value is not the default.

    Attributes:
        name: the option's own name.
        kafka_name: its name in Kafka's documentation; None if Kafka does not have it.
        value: the effective value as text; passwords are hidden.
        default: the default as text.
    """

    name: str
    kafka_name: str | None
    value: str
    default: str


class Report(NamedTuple):
    """The result of a check; facts are missing if an error prevents finding them.

    Attributes:
        mode: `standalone`, or `cluster`; None if unknown.
        node_id: the id of the broker; None if the folder or the cluster determines it.
        zookeeper: the addresses of ZooKeeper; None for a standalone broker.
        listeners: the listeners.
        folder: the folder for files; None for a broker without files.
        open_files_max: how many files and connections the process may have open.
        options: the options with other values than the defaults.
        findings: the findings, by kind.
    """

    mode: str | None
    node_id: int | None
    zookeeper: str | None
    listeners: tuple[ListenerFacts, ...]
    folder: FolderFacts | None
    open_files_max: int
    options: tuple[OptionFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def would_start(self) -> bool:
        """Whether nothing was found that prevents a start."""
        return not any(finding.kind is Kind.ERROR for finding in self.findings)
