"""`inter.broker.protocol.version`: the release whose requests a broker sends to the other brokers of its cluster.

As in Apache Kafka, brokers do not negotiate it. While any broker of the cluster runs an older release, the properties
of every broker name that release; afterwards, the brokers are restarted one by one with the newer one.

Source: `MetadataVersion` in Apache Kafka 3.9.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["NEWEST", "OLDEST", "PeerVersions", "ProtocolVersion", "peer_versions", "read_protocol_version"]

_WRITTEN: Final = re.compile(r"(\d{1,3})\.(\d{1,3})(?:-IV(\d{1,3})|\..*)?", re.ASCII)


class ProtocolVersion(NamedTuple):
    """A version of the inter-broker protocol.

    Attributes:
        major: the first number of the release.
        minor: the second number of the release.
        step: the number after `IV`: a release may change the protocol several times.
    """

    major: int
    minor: int
    step: int


class PeerVersions(NamedTuple):
    """The versions of a broker's requests to other brokers that depend on the protocol.

    LeaderAndIsr, UpdateMetadata, StopReplica and WriteTxnMarkers have not changed since 3.4, and AddPartitionsToTxn is
    not sent to a broker whose release cannot verify transactions.

    Attributes:
        fetch: the version of a follower's Fetch.
        list_offsets: the version of a follower's ListOffsets.
        alter_partition: the version of a leader's AlterPartition. Apache Kafka takes the highest version that the
            controller supports; this is the highest one that every broker with this protocol supports.
    """

    fetch: int
    list_offsets: int
    alter_partition: int


#: The last step of each release. Releases before 3.4 differ in more requests.
_LAST_STEPS: Final = {(3, 4): 0, (3, 5): 2, (3, 6): 2, (3, 7): 4, (3, 8): 0, (3, 9): 0}

OLDEST: Final = ProtocolVersion(3, 4, 0)
NEWEST: Final = ProtocolVersion(3, 9, 0)

#: The protocols that changed a version, newest first.
_CHANGES: Final = (
    (NEWEST, PeerVersions(17, 9, 3)),
    (ProtocolVersion(3, 7, 4), PeerVersions(16, 8, 3)),
    (ProtocolVersion(3, 5, 1), PeerVersions(15, 8, 3)),
    (ProtocolVersion(3, 5, 0), PeerVersions(14, 8, 2)),
    (OLDEST, PeerVersions(13, 7, 2)),
)


def read_protocol_version(text: str) -> ProtocolVersion | None:
    """Return the version that a text such as 3.9, 3.5-IV1 or 3.5.2 stands for.

    A release stands for its last step, as in Apache Kafka.

    Returns:
        None if the text is no version; the version may be older or newer than those supported.
    """
    matched = _WRITTEN.fullmatch(text)
    if matched is None:
        return None
    major, minor, step = matched.groups()
    release = int(major), int(minor)
    last = _LAST_STEPS.get(release, 0)
    if step is None:
        return ProtocolVersion(*release, last)
    return ProtocolVersion(*release, int(step)) if release not in _LAST_STEPS or int(step) <= last else None


def peer_versions(protocol: ProtocolVersion) -> PeerVersions:
    """Return the versions of the requests that a broker sends to others.

    Args:
        protocol: a version from `OLDEST` to `NEWEST`.
    """
    return next(versions for since, versions in _CHANGES if protocol >= since)
