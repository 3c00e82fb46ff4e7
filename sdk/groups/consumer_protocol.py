"""The consumer protocol of classic groups: each member's subscription, and the leader's assignment for that member.

The coordinator passes both on as opaque bytes: a subscription inside JoinGroup, an assignment inside SyncGroup. Each
consists of an int16 version and the message in that version. Members running different releases may share a group, so a
version above the newest known one is read as if it were the newest: later versions only append fields. Members that use
other client libraries may write invalid subscriptions: a leader reads as much of a subscription as it can.

Source: Apache Kafka, `ConsumerProtocol`; KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from collections.abc import Iterable
from typing import TypeVar

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.topics import is_legal_name

__all__ = [
    "VERSION_BYTES",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "read_subscription",
]

M = TypeVar("M", bound=Message)

#: The version that each message begins with.
VERSION_BYTES = 2


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
    return _said(_decode(ConsumerProtocolSubscription, data))


def read_subscription(data: bytes) -> tuple[MemberSubscription, str]:
    """Read as much of a member's subscription as possible; if nothing is readable, the member subscribes to nothing.

    The first missing or damaged field and all fields after it are left out, except the fields of version 0. Illegal
    topic names, negative partitions and duplicates are also left out.

    Returns:
        The subscription, and a description of its damage, which is empty if it is intact.
    """
    try:
        said, damage = decode_subscription(data), ""
    except DecodeError as error:
        said, damage = _said_by_older_version(data), str(error)
    illegal = [topic for topic in said.topics if not is_legal_name(topic)]
    if illegal and not damage:
        damage = f"{quoted(illegal[0], 100)} is not a valid topic name"
    topics = (topic for topic in said.topics if topic not in illegal)
    owned = (partition for partition in said.owned_partitions if partition.partition >= 0)
    return said._replace(topics=tuple(dict.fromkeys(topics)), owned_partitions=tuple(dict.fromkeys(owned))), damage


def _said_by_older_version(data: bytes) -> MemberSubscription:
    oldest, newest = ConsumerProtocolSubscription.SCHEMA.versions
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True) if len(data) >= VERSION_BYTES else oldest
    for older in range(min(version, newest + 1) - 1, oldest - 1, -1):
        try:
            return _said(program(ConsumerProtocolSubscription, older).decode(data, VERSION_BYTES)[0])
        except DecodeError:
            continue
    return MemberSubscription(())


def _said(message: ConsumerProtocolSubscription) -> MemberSubscription:
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
    """Decode the leader's assignment; negative partitions are left out.

    Raises:
        DecodeError: the bytes are not an assignment.
    """
    assigned = _partitions(_decode(ConsumerProtocolAssignment, data).assigned_partitions)
    return tuple(partition for partition in assigned if partition.partition >= 0)


def _encode(message: Message) -> bytes:
    newest = message.SCHEMA.versions.last
    return newest.to_bytes(VERSION_BYTES, "big") + program(type(message), newest).encode(message)


def _decode(message: type[M], data: bytes) -> M:
    oldest, newest = message.SCHEMA.versions
    if len(data) < VERSION_BYTES:
        raise DecodeError("version", 0, f"{VERSION_BYTES} bytes are needed, but {len(data)} are left")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < oldest:
        raise DecodeError("version", 0, f"version {version} is unknown; the oldest known version is {oldest}")
    return program(message, min(version, newest)).decode(data, VERSION_BYTES)[0]


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics.items()


def _partitions(
    topics: Iterable[ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition],
) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)
