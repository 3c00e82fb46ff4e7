"""The consumer protocol of classic groups: each member's subscription, and the assignment the leader gives it.

The coordinator passes both on as opaque bytes: a subscription inside JoinGroup, an assignment inside SyncGroup. Each is
an int16 version and the message in that version. Members of different releases share a group, so a version above the
newest one known here is read as that one: later versions only append fields.

Source: Apache Kafka, `ConsumerProtocol`; KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from collections.abc import Iterable
from typing import TypeVar

from kafkawire.sdk.client.groups.assignor import MemberSubscription
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message

__all__ = ["decode_assignment", "decode_subscription", "encode_assignment", "encode_subscription"]

M = TypeVar("M", bound=Message)

_VERSION_BYTES = 2


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """Return the bytes of a subscription; topics and partitions are sorted, as in Kafka's clients."""
    owned = [
        ConsumerProtocolSubscription.TopicPartition(topic, partitions)
        for topic, partitions in _by_topic(sorted(subscription.owned_partitions))
    ]
    message = ConsumerProtocolSubscription(
        sorted(subscription.topics), subscription.user_data, owned, subscription.generation_id, subscription.rack_id
    )
    return _encode(message)


def decode_subscription(data: bytes) -> MemberSubscription:
    """Decode a member's subscription.

    Raises:
        DecodeError: the bytes are not a subscription.
    """
    message = _decode(ConsumerProtocolSubscription, data)
    return MemberSubscription(
        tuple(message.topics),
        _partitions(message.owned_partitions),
        message.generation_id,
        message.rack_id,
        None if message.user_data is None else bytes(message.user_data),
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the bytes of an assignment; topics are in the order of their first partition."""
    assigned = [ConsumerProtocolAssignment.TopicPartition(topic, numbers) for topic, numbers in _by_topic(partitions)]
    return _encode(ConsumerProtocolAssignment(assigned))


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Decode the assignment that the leader made.

    Raises:
        DecodeError: the bytes are not an assignment.
    """
    return _partitions(_decode(ConsumerProtocolAssignment, data).assigned_partitions)


def _encode(message: Message) -> bytes:
    newest = message.SCHEMA.versions.last
    return newest.to_bytes(_VERSION_BYTES, "big") + program(type(message), newest).encode(message)


def _decode(message: type[M], data: bytes) -> M:
    oldest, newest = message.SCHEMA.versions
    if len(data) < _VERSION_BYTES:
        raise DecodeError("version", 0, f"{_VERSION_BYTES} bytes needed, {len(data)} left")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < oldest:
        raise DecodeError("version", 0, f"{version}, the oldest is {oldest}")
    return program(message, min(version, newest)).decode(data, _VERSION_BYTES)[0]


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics.items()


def _partitions(
    topics: Iterable[ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition],
) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)
