"""Which members and partitions share a rack, for the assignors that keep reads inside one.

Racks count only where they tell partitions apart: if every partition has a replica in every rack, or no member stands
in a rack with replicas, there is nothing to gain and nothing here matches or mismatches.

Source: Apache Kafka, `AbstractPartitionAssignor.useRackAwareAssignment`; KIP-881.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import PartitionCounts, ReplicaRacks

__all__ = ["Racks"]


class Racks:
    """The racks of members and partitions.

    Args:
        members: member id to rack; members without one are left out.
        partition_counts: of the topics to look at.
        replica_racks: of all topics; None if not known.

    Attributes:
        matter: whether racks tell partitions apart.
    """

    def __init__(
        self, members: Mapping[str, str], partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None
    ) -> None:
        racks = {
            TopicPartition(topic, number): frozenset(replicas)
            for topic, count in partition_counts.items()
            for number, replicas in enumerate((replica_racks or {}).get(topic, ())[:count])
        }
        everywhere = frozenset().union(*racks.values())
        shared = not everywhere.isdisjoint(members.values())
        self.matter = shared and any(replicas != everywhere for replicas in racks.values())
        self._members = dict(members) if self.matter else {}
        self._partitions = racks if self.matter else {}

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a member stands in a rack, and the partition has no replica there."""
        rack = self._members.get(member)
        return rack is not None and rack not in self._partitions.get(partition, ())

    def match(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a member stands in a rack in which the partition has a replica."""
        rack = self._members.get(member)
        return rack is not None and rack in self._partitions.get(partition, ())

    def nearby(self, partition: TopicPartition) -> int:
        """Return how many members stand in a rack in which the partition has a replica."""
        replicas = self._partitions.get(partition, ())
        return sum(rack in replicas for rack in self._members.values())
