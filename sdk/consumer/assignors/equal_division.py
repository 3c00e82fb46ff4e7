"""Divide partitions among members that all want the same topics, moving as few as possible.

Every member gets the same number, some one more. Members keep what they have up to that; the rest goes round. It takes
one pass, so it also serves big groups.

Source: Apache Kafka, `AbstractStickyAssignor`, the case of equal subscriptions; KIP-54, KIP-341, KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import Assignment, PartitionCounts, partitions_of
from kafkawire.sdk.consumer.assignors.java_order import java_order, string_hash
from kafkawire.sdk.consumer.assignors.ownership import Ownership
from kafkawire.sdk.consumer.assignors.racks import Racks

__all__ = ["EqualDivision"]


class EqualDivision:
    """One division.

    Args:
        partition_counts: of all topics that the members want.
        ownership: who had what; names all members.
        racks: of the members and partitions.

    Attributes:
        assignment: what each member gets, after `divide`.
        moved: partitions that were taken from a member and given to another.
    """

    def __init__(self, partition_counts: PartitionCounts, ownership: Ownership, racks: Racks) -> None:
        self.assignment: Assignment = {member: [] for member in ownership.owned}
        self.moved: set[TopicPartition] = set()
        self._partition_counts = partition_counts
        self._ownership = ownership
        self._racks = racks
        self._share, self._larger_shares = divmod(sum(partition_counts.values()), len(ownership.owned))
        self._largest = self._share + (self._larger_shares > 0)
        # Members with less than a share, and members with just a share that may get one more.
        self._poor: list[str] = []
        self._fair: list[str] = []
        # Partitions that are taken away, from whom.
        self._revoked: dict[TopicPartition, str | None] = dict.fromkeys(ownership.disputed)

    def divide(self) -> None:
        """Fill `assignment`."""
        self._keep()
        kept = {partition for partitions in self.assignment.values() for partition in partitions}
        left = [
            partition
            for topic, count in sorted(self._partition_counts.items())
            for partition in partitions_of(topic, count)
            if partition not in kept
        ]
        self._poor.sort()
        self._fair.sort()
        if self._racks.matter:
            left = self._deal_nearby(sorted(left, key=self._racks.nearby))
        self._deal(left)

    def _keep(self) -> None:
        """Leave members what they have, up to their shares; larger shares go to the first that have enough."""
        for member in java_order(self._ownership.owned, string_hash):
            owned = [
                partition
                for partition in sorted(self._ownership.owned[member], key=_by_number)
                if partition not in self._ownership.disputed and not self._racks.mismatch(member, partition)
            ]
            size = min(len(owned), self._share)
            if len(owned) < self._share:
                self._poor.append(member)
            elif self._larger_shares and len(owned) >= self._largest:
                size = self._largest
                self._take_larger_share()
            elif self._larger_shares:
                self._fair.append(member)
            self.assignment[member] = owned[:size]
            kept = set(self.assignment[member])
            self._revoked.update({each: member for each in self._ownership.owned[member] if each not in kept})

    def _deal_nearby(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members near to them and return those that found none; the hardest to place come first."""
        left = []
        turn = 0
        for partition in partitions:
            index = self._nearby(partition, self._poor, turn)
            if index is not None:
                member = self._poor[index]
                if self._give(partition, member) < self._share:
                    index += 1
                turn = index % len(self._poor) if self._poor else 0
                continue
            index = self._nearby(partition, self._fair, 0)
            if index is None:
                left.append(partition)
            else:
                self._give(partition, self._fair[index])
        return left

    def _nearby(self, partition: TopicPartition, members: Sequence[str], first: int) -> int | None:
        """Return the first index from `first` on, and round, of a member in a rack of the partition."""
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self._racks.match(members[index], partition):
                return index
        return None

    def _deal(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions in turn to members with less than their share, then to those that may get one more."""
        turn = 0
        for partition in partitions:
            if turn >= len(self._poor):
                turn = 0
            member = self._poor[turn] if self._poor else self._fair[0]
            if self._give(partition, member) < self._share:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> int:
        """Give a partition and return how many the member has now."""
        assigned = self.assignment[member]
        assigned.append(partition)
        if self._revoked.get(partition, member) != member:
            self.moved.add(partition)
        if len(assigned) == self._share:
            self._poor.remove(member)
            if self._larger_shares:
                self._fair.append(member)
        elif len(assigned) == self._largest:
            self._fair.remove(member)
            self._take_larger_share()
        return len(assigned)

    def _take_larger_share(self) -> None:
        self._larger_shares -= 1
        if not self._larger_shares:
            self._fair.clear()


def _by_number(partition: TopicPartition) -> tuple[int, str]:
    return partition.partition, partition.topic
