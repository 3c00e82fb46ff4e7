"""What every assignor is: a rule by which the leader of a classic group divides partitions among its members.

An assignor is a pure function of what the members said and of what the cluster is; each member must be able to lead.

Source: Apache Kafka, `ConsumerPartitionAssignor`, `AbstractPartitionAssignor`; KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.consumer_protocol import Subscription

__all__ = [
    "Assignment",
    "Assignor",
    "PartitionCounts",
    "ReplicaRacks",
    "Subscriptions",
    "in_order_of_members",
    "partitions_of",
    "readable",
]

#: What each member wants and has, by member id. Where an assignor has equal choices, this order may decide.
Subscriptions = Mapping[str, Subscription]

#: How many partitions each topic has.
PartitionCounts = Mapping[str, int]

#: The racks of the replicas, `[topic][partition]`.
ReplicaRacks = Mapping[str, Sequence[Collection[str]]]

#: What each member gets, by member id; members that get nothing are there too.
Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """A rule by which partitions are divided.

    Attributes:
        name: what members call it when they agree on one.
        cooperative: whether members keep their partitions while the group divides anew.
    """

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool: ...

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """Return what a member adds to its subscription for this assignor, None for nothing.

        Args:
            partitions: what the member was assigned last.
            generation_id: of the group at that time, -1 if there was none.
        """

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Divide the partitions.

        Args:
            subscriptions: of all members.
            partition_counts: of the topics that exist; others are passed over.
            replica_racks: where the replicas are, for assignors that keep reads inside a rack; None if not known.

        Returns:
            Each partition that somebody wants, given to one member that wants it. (A cooperative assignor leaves out
            partitions that their former owner has to give up first.)
        """
        ...


def readable(subscriptions: Subscriptions, partition_counts: PartitionCounts) -> dict[str, int]:
    """Return the topics that exist and that somebody wants, with their partition counts."""
    wanted = {topic: None for subscription in subscriptions.values() for topic in subscription.topics}
    return {topic: count for topic in wanted if (count := partition_counts.get(topic, 0)) > 0}


def partitions_of(topic: str, count: int) -> Iterator[TopicPartition]:
    """Give the partitions of a topic in order."""
    return (TopicPartition(topic, number) for number in range(count))


def in_order_of_members(subscriptions: Subscriptions) -> list[str]:
    """Return the member ids so that restarts change little: lasting names first, by name, then the others by id."""

    def order(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (True, member) if instance is None else (False, instance)

    return sorted(subscriptions, key=order)
