"""What consumers of the classic protocol send and get through JoinGroup and SyncGroup: subscriptions and assignments.

Both begin with a version. A newer version than this broker knows is read as the newest it knows, which later
versions extend.

Source: `ConsumerProtocol` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.topics import Topics
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program

__all__ = [
    "Assignment",
    "Subscription",
    "read_assignment",
    "read_subscription",
    "readable_version",
    "write_assignment",
]

#: Size of the version before a message.
_VERSION_BYTES = 2

_LAST = ConsumerProtocolSubscription.SCHEMA.versions.last


class Subscription(NamedTuple):
    """A consumer's subscription.

    Attributes:
        topics: their names.
        owned: the partitions that the consumer owns, by topic id.
        rack_id: where it runs, None if not known.
    """

    topics: tuple[str, ...]
    owned: Partitions
    rack_id: str | None


class Assignment(NamedTuple):
    """A consumer's assignment.

    Attributes:
        partitions: by topic id, those of topics that exist.
        user_data: what the leader's assignor tells the member's.
    """

    partitions: Partitions
    user_data: bytes


def read_subscription(data: bytes, topics: Topics) -> Subscription:
    """Read a subscription.

    Raises:
        DecodeError: it cannot be read.
    """
    message, _ = program(ConsumerProtocolSubscription, _version(data)).decode(data, _VERSION_BYTES)
    owned = _by_id(((part.topic, part.partitions) for part in message.owned_partitions), topics)
    return Subscription(tuple(message.topics), owned, message.rack_id)


def read_assignment(data: bytes, topics: Topics) -> Assignment:
    """Read an assignment; no bytes at all are an empty one.

    Raises:
        DecodeError: it cannot be read.
    """
    if not data:
        return Assignment({}, b"")
    message, _ = program(ConsumerProtocolAssignment, _version(data)).decode(data, _VERSION_BYTES)
    assigned = _by_id(((part.topic, part.partitions) for part in message.assigned_partitions), topics)
    return Assignment(assigned, bytes(message.user_data or b""))


def readable_version(data: bytes) -> int:
    """Return the version in which the sender of a subscription reads its assignment; the first if it does not say."""
    try:
        return _version(data)
    except DecodeError:
        return 0


def write_assignment(version: int, partitions: Partitions, names: Iterable[str], topics: Topics) -> bytes:
    """Return an assignment.

    Args:
        version: to write it in.
        partitions: by topic id.
        names: of the topics that they are of as a rule.
        topics: those that exist.
    """
    ids = {topics[name].topic_id: name for name in names if name in topics}
    if not partitions.keys() <= ids.keys():
        # A leader of the classic protocol may assign what a member is not subscribed to.
        ids = {facts.topic_id: name for name, facts in topics.items()}
    parts = [
        ConsumerProtocolAssignment.TopicPartition(ids[topic_id], sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
        if topic_id in ids
    ]
    encoded = program(ConsumerProtocolAssignment, version).encode(ConsumerProtocolAssignment(parts))
    return version.to_bytes(_VERSION_BYTES, "big") + encoded


def _version(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise DecodeError("a version", 0, f"{len(data)} bytes are too short for a version")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError("a version", 0, f"version {version} is negative")
    return min(version, _LAST)


def _by_id(parts: Iterable[tuple[str, Iterable[int]]], topics: Topics) -> Partitions:
    found: dict[bytes, frozenset[int]] = {}
    for name, numbers in parts:
        if name in topics:
            topic_id = topics[name].topic_id
            found[topic_id] = found.get(topic_id, frozenset()).union(numbers)
    return found
