"""Deal out the partitions of all topics one by one.

With equal subscriptions the sizes differ by one at most; a member that joins or leaves moves nearly everything.

Source: Apache Kafka, `RoundRobinAssignor`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    in_order_of_members,
    partitions_of,
    readable,
)

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
        """Give each partition, in order of topic and number, to the next member in turn that wants its topic."""
        members = in_order_of_members(subscriptions)
        assignment: Assignment = {member: [] for member in subscriptions}
        wants = {member: frozenset(subscriptions[member].topics) for member in members}
        turn = 0
        for topic, count in sorted(readable(subscriptions, partition_counts).items()):
            for partition in partitions_of(topic, count):
                while topic not in wants[members[turn]]:
                    turn = (turn + 1) % len(members)
                assignment[members[turn]].append(partition)
                turn = (turn + 1) % len(members)
        return assignment
