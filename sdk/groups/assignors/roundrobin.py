"""Assign the partitions of all topics to the members in turn.

With equal subscriptions, the counts differ by at most one. When a member joins or leaves, nearly every partition moves.

Source: Apache Kafka, `RoundRobinAssignor`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.groups.assignor import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    partitions_of,
    sorted_members,
    subscribed_topics,
)
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor:
    """See `Assignor`."""

    name = "roundrobin"
    cooperative = False

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """Add nothing."""
        return None

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Give each partition, in order of topic and number, to the next member that subscribes to its topic."""
        members = sorted_members(subscriptions)
        assignment: Assignment = {member: [] for member in subscriptions}
        wants = {member: frozenset(subscriptions[member].topics) for member in members}
        next_member = 0
        for topic, count in sorted(subscribed_topics(subscriptions, partition_counts).items()):
            for partition in partitions_of(topic, count):
                while topic not in wants[members[next_member]]:
                    next_member = (next_member + 1) % len(members)
                assignment[members[next_member]].append(partition)
                next_member = (next_member + 1) % len(members)
        return assignment
