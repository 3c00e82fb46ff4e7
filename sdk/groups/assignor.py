"""The interface of assignors, with which the leader of a classic group assigns partitions to the group's members.

Consumers have built-in assignors (`assignors/`), and applications can add more. An assignor is a pure function of the
subscriptions and the cluster; any member may become the leader.

Source: Apache Kafka, `ConsumerPartitionAssignor`, `AbstractPartitionAssignor`; KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = [
    "Assignment",
    "Assignor",
    "AssignorName",
    "MemberSubscription",
    "PartitionCounts",
    "ReplicaRacks",
    "Subscriptions",
    "partitions_of",
    "sorted_members",
    "subscribed_topics",
]

#: The names of the assignors that a consumer can use, which are the names that members of a group exchange.
AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]


class MemberSubscription(NamedTuple):
    """The topics a group member subscribes to, and the partitions it owns.

    Attributes:
        topics: the topics it wants to read.
        owned_partitions: the partitions it has not revoked.
        generation_id: the generation in which it got them; -1 if there was none.
        rack_id: its rack; None if it has none.
        user_data: the data that its assignor added; None if there is none.
        group_instance_id: the id of a static member; None for a dynamic one. The coordinator passes it on alongside the
            subscription; it is not part of the encoded bytes.
    """

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = UNKNOWN_GENERATION_ID
    rack_id: str | None = None
    user_data: bytes | None = None
    group_instance_id: str | None = None


#: Subscriptions, keyed by member id; their order can break ties.
Subscriptions = Mapping[str, MemberSubscription]

#: The number of partitions of each topic.
PartitionCounts = Mapping[str, int]

#: The racks of the replicas, `[topic][partition]`.
ReplicaRacks = Mapping[str, Sequence[Collection[str]]]

#: The partitions assigned to each member, keyed by member id; members without any are included.
Assignment = dict[str, list[TopicPartition]]


@runtime_checkable
class Assignor(Protocol):
    """Assigns the partitions of a classic group to its members; pass your own as `assignors=[MyAssignor()]`.

    All members of a group must have an assignor with the same name. For example, to give one member all partitions
    while the others stand by:

        class OneForAll(Assignor):
            name = "one-for-all"

            def assign(self, subscriptions, partition_counts, replica_racks=None):
                chosen = min(subscriptions)
                return {
                    chosen: [
                        TopicPartition(topic, number)
                        for topic in subscriptions[chosen].topics
                        for number in range(partition_counts.get(topic, 0))
                    ]
                }

    If an assignor raises, or makes an impossible assignment, the next read of its consumer raises a `KafkaWireError`
    that names the assignor, with the failure as its cause. The consumer leaves the group to let another member lead,
    and rejoins when it reads again. Data from other members' clients can be damaged: `topics` and `owned_partitions`
    contain whatever could be read, and `user_data` can contain anything.

    Attributes:
        name: the protocol name that members agree on.
        cooperative: whether members keep their partitions during a rebalance; False by default. A consumer keeps them
            if all of its assignors are cooperative.
    """

    name: str
    cooperative: bool = False

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """Return the user data that a member adds to its subscription; None if it adds none.

        Args:
            partitions: the member's last assignment.
            generation_id: the generation of that assignment; -1 if there was none.
        """
        return None

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Assign the partitions of all subscribed topics.

        Args:
            subscriptions: the subscriptions, keyed by member id.
            partition_counts: the number of partitions of each topic; topics missing here do not exist.
            replica_racks: racks of the replicas, `[topic][partition]`, for rack-aware assignors; None if unknown.

        Returns:
            The partitions of each member, keyed by member id. Members get only partitions of topics that they subscribe
            to, and no partition goes to two members. A cooperative assignor leaves out partitions that another member
            must revoke first; the next rebalance follows immediately.
        """
        ...


def subscribed_topics(subscriptions: Subscriptions, partition_counts: PartitionCounts) -> dict[str, int]:
    """Return the existing topics that have a subscriber, with their partition counts."""
    wanted = {topic: None for subscription in subscriptions.values() for topic in subscription.topics}
    return {topic: count for topic in wanted if (count := partition_counts.get(topic, 0)) > 0}


def partitions_of(topic: str, count: int) -> Iterator[TopicPartition]:
    """Yield the partitions of a topic in order."""
    return (TopicPartition(topic, number) for number in range(count))


def sorted_members(subscriptions: Subscriptions) -> list[str]:
    """Return the member ids in an order that survives restarts: static members first, sorted by instance id."""

    def order(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (True, member) if instance is None else (False, instance)

    return sorted(subscriptions, key=order)
