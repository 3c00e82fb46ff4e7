"""The folder of a cluster on this machine: its files, the lock held by its supervisor, and `cluster.json`.

    cluster.json        every member with its address, pid and state; replaced as a whole on each change
    control.json        how commands reach the supervisor; readable only by its user
    config/             a properties file for each member
    logs/               the output of each member
    broker-ID/          a broker's files
    zookeeper/          ZooKeeper's files

The supervisor holds a lock, which the kernel releases when the process ends, so commands know whether there is a
supervisor.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.process_identity import ProcessIdentity
from kafkawire.sdk.errors import KafkaWireError

__all__ = ["ZOOKEEPER", "ClusterError", "ClusterFolder", "ClusterRecord", "MemberRecord", "replace_file"]

#: The name of the only member that is not a broker.
ZOOKEEPER: Final = "zookeeper"

#: Commands hold the lock for a few milliseconds to correct the record of a cluster that has no supervisor.
_LOCK_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.02


class ClusterError(KafkaWireError):
    """A cluster on this machine cannot do what was requested; the text says why."""


class MemberRecord(NamedTuple):
    """A member as recorded in `cluster.json`.

    Attributes:
        name: a broker's id as text, or `ZOOKEEPER`.
        address: where it listens, as `host:port`.
        state: its state.
        process: its process; None if it has none.
        exit_status: the exit status of its last process, negative if a signal ended it; None if it has not ended.
    """

    name: str
    address: str
    state: MemberState = MemberState.STOPPED
    process: ProcessIdentity | None = None
    exit_status: int | None = None

    @property
    def full_name(self) -> str:
        """The member's name, for use in sentences."""
        return "ZooKeeper" if self.name == ZOOKEEPER else f"broker {self.name}"

    def without_process(self, state: MemberState) -> MemberRecord:
        """Return the member's record after its process has ended with an unknown exit status."""
        return self._replace(state=state, process=None, exit_status=None)


class ClusterRecord(NamedTuple):
    """The content of `cluster.json`.

    Attributes:
        brokers: the brokers, in order of their ids.
        zookeeper: the ZooKeeper that the cluster has started; None if it uses another one.
        zookeeper_connect: where brokers reach ZooKeeper, in the form of `zookeeper.connect`.
    """

    brokers: tuple[MemberRecord, ...]
    zookeeper: MemberRecord | None
    zookeeper_connect: str

    @property
    def members(self) -> tuple[MemberRecord, ...]:
        """All members, ZooKeeper first."""
        return self.brokers if self.zookeeper is None else (self.zookeeper, *self.brokers)

    @property
    def bootstrap(self) -> str:
        """The addresses to which clients connect."""
        return ",".join(broker.address for broker in self.brokers)


class ClusterFolder:
    """The folder of a cluster.

    Args:
        path: its path; `create` creates it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Final = Path(path).absolute()

    @property
    def record_path(self) -> Path:
        """The file `cluster.json`."""
        return self.path / "cluster.json"

    @property
    def control_path(self) -> Path:
        """The file that contains how to reach the supervisor."""
        return self.path / "control.json"

    @property
    def zookeeper_data(self) -> Path:
        """The folder for ZooKeeper's files."""
        return self.path / ZOOKEEPER

    def broker_data(self, broker_id: int) -> Path:
        """Return the folder for a broker's files."""
        return self.path / f"broker-{broker_id}"

    def config_path(self, name: str) -> Path:
        """Return the file with the properties of a member."""
        return self.path / "config" / f"{_file_stem(name)}.properties"

    def log_path(self, name: str) -> Path:
        """Return the file with a member's output."""
        return self.path / "logs" / f"{_file_stem(name)}.log"

    def create(self) -> None:
        """Create the folder and its subfolders if they are missing.

        Raises:
            OSError: a folder cannot be created.
        """
        for folder in (self.path, self.path / "config", self.path / "logs"):
            folder.mkdir(parents=True, exist_ok=True)

    def lock(self, patience_seconds: float = _LOCK_SECONDS) -> int | None:
        """Take the supervisor's lock, and return its descriptor; None if another process holds it.

        Args:
            patience_seconds: how long to wait for a process that holds it.

        Raises:
            OSError: the folder does not exist, or the lock cannot be written.
        """
        lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(lock)
                    return None
                time.sleep(_PAUSE_SECONDS)
            else:
                return lock

    def read(self) -> ClusterRecord | None:
        """Return the content of `cluster.json`; None if the file does not exist.

        Raises:
            ClusterError: the file is damaged.
            OSError: the file cannot be read.
        """
        try:
            content = self.record_path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            found = json.loads(content)
            zookeeper = found["zookeeper"]
            own = None if zookeeper["state"] is None else _record(ZOOKEEPER, zookeeper)
            brokers = sorted((_record(str(int(each["id"])), each) for each in found["brokers"]), key=_id)
            return ClusterRecord(tuple(brokers), own, str(zookeeper["address"]))
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ClusterError(f"{self.record_path} is not a valid cluster record ({reason})") from None

    def write(self, record: ClusterRecord) -> None:
        """Replace `cluster.json`.

        Raises:
            OSError: the file cannot be written.
        """
        own = record.zookeeper
        shown = {"address": record.zookeeper_connect, "state": None, "pid": None} if own is None else _entry(own)
        brokers = [{"id": int(broker.name), **_entry(broker)} for broker in record.brokers]
        replace_file(self.record_path, json.dumps({"brokers": brokers, ZOOKEEPER: shown}, indent=1) + "\n")


def replace_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file atomically: a reader sees either the old content or the new.

    Args:
        path: the file.
        text: its new content.
        mode: its permissions.

    Raises:
        OSError: the file cannot be written.
    """
    new = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _file_stem(name: str) -> str:
    return name if name == ZOOKEEPER else f"broker-{name}"


def _id(broker: MemberRecord) -> int:
    return int(broker.name)


def _entry(member: MemberRecord) -> dict[str, Any]:
    process = member.process
    return {
        "address": member.address,
        "pid": None if process is None else process.pid,
        "state": member.state.value,
        "exit_status": member.exit_status,
        "started": None if process is None else process.started,
    }


def _record(name: str, entry: Mapping[str, Any]) -> MemberRecord:
    process = None if entry["pid"] is None else ProcessIdentity(int(entry["pid"]), str(entry["started"]))
    return MemberRecord(name, str(entry["address"]), MemberState(entry["state"]), process, entry["exit_status"])
