"""The interface of an assignor: how the leader of a classic group assigns partitions to its members.

An assignor is a pure function of the subscriptions and the cluster; any member may have to lead.

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
    "partitions_of",
    "sorted_members",
    "subscribed_topics",
]

#: Subscriptions by member id. Their order may break ties.
Subscriptions = Mapping[str, Subscription]

#: The number of partitions of each topic.
PartitionCounts = Mapping[str, int]

#: The racks of the replicas, `[topic][partition]`.
ReplicaRacks = Mapping[str, Sequence[Collection[str]]]

#: What each member gets, by member id; members that get nothing are included.
Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """Assigns partitions to the members of a group.

    Attributes:
        name: the protocol name that members agree on.
        cooperative: whether members keep their partitions during a rebalance.
    """

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool: ...

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """Return the user data that a member adds to its subscription, None for none.

        Args:
            partitions: the member's last assignment.
            generation_id: the generation of that assignment, -1 if there was none.
        """

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Assign the partitions of all topics subscribed to.

        Args:
            subscriptions: by member id.
            partition_counts: by topic; topics that are missing here are skipped.
            replica_racks: racks of the replicas, `[topic][partition]`, for rack-aware assignors; None if not known.

        Returns:
            Each partition, assigned to exactly one subscriber. A cooperative assignor leaves out partitions that
            another member must revoke first.
        """
        ...


def subscribed_topics(subscriptions: Subscriptions, partition_counts: PartitionCounts) -> dict[str, int]:
    """Return the topics that exist and have a subscriber, with their partition counts."""
    wanted = {topic: None for subscription in subscriptions.values() for topic in subscription.topics}
    return {topic: count for topic in wanted if (count := partition_counts.get(topic, 0)) > 0}


def partitions_of(topic: str, count: int) -> Iterator[TopicPartition]:
    """Yield the partitions of a topic in order."""
    return (TopicPartition(topic, number) for number in range(count))


def sorted_members(subscriptions: Subscriptions) -> list[str]:
    """Return the member ids in an order that survives restarts: static members by instance id, then the others."""

    def order(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (True, member) if instance is None else (False, instance)

    return sorted(subscriptions, key=order)
