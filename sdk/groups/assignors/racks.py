"""Find members and replicas that share a rack, for rack-aware assignors.

Source: Apache Kafka, `AbstractPartitionAssignor.useRackAwareAssignment`; KIP-881.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.sdk.groups.assignor import PartitionCounts, ReplicaRacks, Subscriptions
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Racks"]


class Racks:
    """The racks of members and replicas.

    Args:
        members: the rack of each member, keyed by member id; members without a rack are left out.
        partitions: racks of the replicas of each partition.

    Attributes:
        matter: whether racks make a difference. They make none if every partition has a replica in every rack, or if no
            member's rack has replicas.
    """

    def __init__(self, members: Mapping[str, str], partitions: Mapping[TopicPartition, frozenset[str]]) -> None:
        self._members = members
        self._partitions = partitions
        everywhere = frozenset[str]().union(*partitions.values())
        reachable = not everywhere.isdisjoint(members.values())
        self.matter = reachable and any(racks != everywhere for racks in partitions.values())

    @staticmethod
    def of(
        subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None
    ) -> Racks:
        """Return the racks of the members and of the partitions of the topics in `partition_counts`."""
        members = {member: said.rack_id for member, said in subscriptions.items() if said.rack_id}
        partitions = {
            TopicPartition(topic, number): frozenset(racks)
            for topic, count in partition_counts.items()
            for number, racks in enumerate((replica_racks or {}).get(topic, ())[:count])
        }
        return Racks(members, partitions)

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a member has a rack where the partition has no replica."""
        rack = self._members.get(member)
        return rack is not None and rack not in self._partitions.get(partition, ())

    def match(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a member is in a rack where the partition has a replica."""
        rack = self._members.get(member)
        return rack is not None and rack in self._partitions.get(partition, ())

    def members_in_rack(self, partition: TopicPartition) -> int:
        """Return the number of members in a rack where the partition has a replica."""
        racks = self._partitions.get(partition, ())
        return sum(rack in racks for rack in self._members.values())
