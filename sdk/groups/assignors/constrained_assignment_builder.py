"""Build a sticky assignment for members that all subscribe to the same topics.

Every member gets the minimum quota of partitions, and some get one more. Members keep the partitions that they own, up
to their quota; the rest is assigned round robin. One pass is enough, so even large groups are cheap to assign.

Source: Apache Kafka, `AbstractStickyAssignor.ConstrainedAssignmentBuilder`; KIP-54, KIP-341, KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkawire.sdk.groups.assignor import Assignment, PartitionCounts, partitions_of
from kafkawire.sdk.groups.assignors.ownership import Ownership
from kafkawire.sdk.groups.assignors.racks import Racks
from kafkawire.sdk.protocol.java_order import java_order, string_hash
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["ConstrainedAssignmentBuilder"]


class ConstrainedAssignmentBuilder:
    """Build one assignment.

    Args:
        partition_counts: the partition count of every subscribed topic.
        ownership: the partitions each member owned; includes every member.
        racks: the racks of the members and the replicas.

    Attributes:
        assignment: the partitions assigned to each member; complete after `build`.
        moved: partitions that change owner.
    """

    def __init__(self, partition_counts: PartitionCounts, ownership: Ownership, racks: Racks) -> None:
        self.assignment: Assignment = {member: [] for member in ownership.owned}
        self.moved: set[TopicPartition] = set()
        self._partition_counts = partition_counts
        self._ownership = ownership
        self._racks = racks
        self._min_quota, self._max_quota_members_left = divmod(sum(partition_counts.values()), len(ownership.owned))
        self._max_quota = self._min_quota + (self._max_quota_members_left > 0)
        # Members below the minimum quota, and members at the minimum quota that may get one more partition.
        self._below_min_quota: list[str] = []
        self._at_min_quota: list[str] = []
        # The former owner of each partition that was taken away; None if several members claimed the partition.
        self._revoked: dict[TopicPartition, str | None] = dict.fromkeys(ownership.disputed)

    def build(self) -> None:
        """Fill `assignment`."""
        self._assign_owned()
        kept = {partition for partitions in self.assignment.values() for partition in partitions}
        left = [
            partition
            for topic, count in sorted(self._partition_counts.items())
            for partition in partitions_of(topic, count)
            if partition not in kept
        ]
        self._below_min_quota.sort()
        self._at_min_quota.sort()
        if self._racks.matter:
            left = self._assign_in_rack(sorted(left, key=self._racks.members_in_rack))
        self._assign_round_robin(left)

    def _assign_owned(self) -> None:
        """Let members keep their partitions, up to their quota; the first members that own enough get the maximum."""
        for member in java_order(self._ownership.owned, string_hash):
            owned = [
                partition
                for partition in sorted(self._ownership.owned[member], key=_by_number)
                if partition not in self._ownership.disputed and not self._racks.mismatch(member, partition)
            ]
            size = min(len(owned), self._min_quota)
            if len(owned) < self._min_quota:
                self._below_min_quota.append(member)
            elif self._max_quota_members_left and len(owned) >= self._max_quota:
                size = self._max_quota
                self._take_max_quota()
            elif self._max_quota_members_left:
                self._at_min_quota.append(member)
            self.assignment[member] = owned[:size]
            kept = set(self.assignment[member])
            self._revoked.update({each: member for each in self._ownership.owned[member] if each not in kept})

    def _assign_in_rack(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in the rack of a replica; return the partitions that no such member can take.

        Args:
            partitions: the partitions, those with the fewest candidates first.
        """
        left = []
        start = 0
        for partition in partitions:
            index = self._first_in_rack(partition, self._below_min_quota, start)
            if index is not None:
                member = self._below_min_quota[index]
                if self._assign(partition, member) < self._min_quota:
                    index += 1
                start = index % len(self._below_min_quota) if self._below_min_quota else 0
                continue
            index = self._first_in_rack(partition, self._at_min_quota, 0)
            if index is None:
                left.append(partition)
            else:
                self._assign(partition, self._at_min_quota[index])
        return left

    def _first_in_rack(self, partition: TopicPartition, members: Sequence[str], first: int) -> int | None:
        """Return the index of the first member in a rack with a replica, searching from `first` and wrapping round."""
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self._racks.match(members[index], partition):
                return index
        return None

    def _assign_round_robin(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions in turn to members below the minimum quota, then to members that may get one more."""
        index = 0
        for partition in partitions:
            if index >= len(self._below_min_quota):
                index = 0
            member = self._below_min_quota[index] if self._below_min_quota else self._at_min_quota[0]
            if self._assign(partition, member) < self._min_quota:
                index += 1

    def _assign(self, partition: TopicPartition, member: str) -> int:
        """Assign a partition, and return how many the member now has."""
        assigned = self.assignment[member]
        assigned.append(partition)
        if self._revoked.get(partition, member) != member:
            self.moved.add(partition)
        if len(assigned) == self._min_quota:
            self._below_min_quota.remove(member)
            if self._max_quota_members_left:
                self._at_min_quota.append(member)
        elif len(assigned) == self._max_quota:
            self._at_min_quota.remove(member)
            self._take_max_quota()
        return len(assigned)

    def _take_max_quota(self) -> None:
        self._max_quota_members_left -= 1
        if not self._max_quota_members_left:
            self._at_min_quota.clear()


def _by_number(partition: TopicPartition) -> tuple[int, str]:
    return partition.partition, partition.topic
