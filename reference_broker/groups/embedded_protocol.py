"""The consumer protocol embedded in classic groups' JoinGroup and SyncGroup: subscriptions and assignments.

Both start with a version. An unknown newer version is read as the newest known one, since later versions extend it.

Source: `ConsumerProtocol` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.topics import TopicFacts
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

#: Size of the version prefix of a message.
_VERSION_BYTES = 2

_LAST = ConsumerProtocolSubscription.SCHEMA.versions.last


class Subscription(NamedTuple):
    """A consumer's subscription.

    Attributes:
        topics: the names of the subscribed topics.
        owned: the partitions that the consumer owns, keyed by topic id.
        rack_id: the rack of the consumer, or None if unknown.
    """

    topics: tuple[str, ...]
    owned: Partitions
    rack_id: str | None


class Assignment(NamedTuple):
    """A consumer's assignment.

    Attributes:
        partitions: the partitions of existing topics, keyed by topic id.
        user_data: data from the leader's assignor to the member's.
    """

    partitions: Partitions
    user_data: bytes


def read_subscription(data: bytes, topics: Mapping[str, TopicFacts]) -> Subscription:
    """Read a subscription.

    Raises:
        DecodeError: the data is malformed.
    """
    message, _ = program(ConsumerProtocolSubscription, _version(data)).decode(data, _VERSION_BYTES)
    owned = _by_id(((part.topic, part.partitions) for part in message.owned_partitions), topics)
    return Subscription(tuple(message.topics), owned, message.rack_id)


def read_assignment(data: bytes, topics: Mapping[str, TopicFacts]) -> Assignment:
    """Read an assignment; empty data is an empty assignment.

    Raises:
        DecodeError: the data is malformed.
    """
    if not data:
        return Assignment({}, b"")
    message, _ = program(ConsumerProtocolAssignment, _version(data)).decode(data, _VERSION_BYTES)
    assigned = _by_id(((part.topic, part.partitions) for part in message.assigned_partitions), topics)
    return Assignment(assigned, bytes(message.user_data or b""))


def readable_version(data: bytes) -> int:
    """Return the newest assignment version that a subscription's sender can read; by default, the first version."""
    try:
        return _version(data)
    except DecodeError:
        return 0


def write_assignment(
    version: int, partitions: Partitions, names: Iterable[str], topics: Mapping[str, TopicFacts]
) -> bytes:
    """Return an encoded assignment.

    Args:
        version: the version of the encoding.
        partitions: by topic id.
        names: the topics to which the partitions usually belong.
        topics: all existing topics.
    """
    ids = {topics[name].topic_id: name for name in names if name in topics}
    if not partitions.keys() <= ids.keys():
        # A leader of the classic protocol may assign topics that a member is not subscribed to.
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
        raise DecodeError("a version", 0, f"expected at least {_VERSION_BYTES} bytes, got {len(data)}")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError("a version", 0, f"the version must be 0 or higher, got {version}")
    return min(version, _LAST)


def _by_id(parts: Iterable[tuple[str, Iterable[int]]], topics: Mapping[str, TopicFacts]) -> Partitions:
    found: dict[bytes, frozenset[int]] = {}
    for name, numbers in parts:
        if name in topics:
            topic_id = topics[name].topic_id
            found[topic_id] = found.get(topic_id, frozenset()).union(numbers)
    return found
