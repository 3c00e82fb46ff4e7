"""Divide partitions among members that want different topics: evenly first, then with few moves.

Members keep what they have and still want; what is left goes to the member with least that wants it. Then partitions
move from members with more to members with less until no move helps; if that made nothing more even, it is undone.

Source: Apache Kafka, `AbstractStickyAssignor`, the general case; KIP-54, KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import Assignment, PartitionCounts, Subscriptions, partitions_of
from kafkawire.sdk.consumer.assignors.java_order import java_order, partition_hash
from kafkawire.sdk.consumer.assignors.ownership import Ownership
from kafkawire.sdk.consumer.assignors.racks import Racks

__all__ = ["GeneralDivision"]


class GeneralDivision:
    """One division.

    Args:
        subscriptions: of all members.
        partition_counts: of all topics that a member wants.
        ownership: who had what.
        racks: of the members and partitions.

    Attributes:
        assignment: what each member gets, after `divide`.
    """

    def __init__(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, ownership: Ownership, racks: Racks
    ) -> None:
        self.assignment: Assignment = {member: [] for member in subscriptions}
        self._partition_counts = partition_counts
        self._ownership = ownership
        self._racks = racks
        self._topics = {
            member: frozenset(subscription.topics) & partition_counts.keys()
            for member, subscription in subscriptions.items()
        }
        self._wanting = {
            topic: [member for member, topics in self._topics.items() if topic in topics] for topic in partition_counts
        }
        self._owners: dict[TopicPartition, str] = {}
        self._moves = _Moves()

    def divide(self) -> None:
        """Fill `assignment`."""
        revoked = self._keep()
        # The topics with the fewest choices come first.
        topics = sorted(self._partition_counts, key=lambda topic: (len(self._wanting[topic]), topic))
        partitions = [each for topic in topics for each in partitions_of(topic, self._partition_counts[topic])]
        left = [partition for partition in partitions if partition not in self._owners]
        fresh = not any(self.assignment.values())
        self._give_all(left)
        movable = [partition for partition in partitions if len(self._wanting[partition.topic]) > 1]
        fixed = {member: self.assignment.pop(member) for member in self._fixed_members()}
        before = {member: list(assigned) for member, assigned in self.assignment.items()}
        if not revoked:
            self._balance([partition for partition in left if len(self._wanting[partition.topic]) > 1])
        moved = self._balance(movable)
        if moved and not fresh and _unevenness(self.assignment) >= _unevenness(before):
            self.assignment = before
        self.assignment.update(fixed)

    def _keep(self) -> bool:
        """Leave members what they have and may keep; return whether something was taken away."""
        revoked = False
        for member, partitions in self._ownership.owned.items():
            for partition in partitions:
                if partition.topic not in self._topics[member] or self._racks.mismatch(member, partition):
                    revoked = True
                else:
                    self.assignment[member].append(partition)
                    self._owners[partition] = member
        return revoked

    def _give_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Give each partition to the member with least that wants it, near to it if possible."""
        far = []
        if self._racks.matter:
            for partition in partitions:
                near = [m for m in self._wanting[partition.topic] if not self._racks.mismatch(m, partition)]
                if near:
                    self._give(partition, self._least(near))
                else:
                    far.append(partition)
            partitions = far
        for partition in partitions:
            self._give(partition, self._least(self._wanting[partition.topic]))

    def _fixed_members(self) -> list[str]:
        """Return members that have all that they can have, of topics that nobody else wants."""
        return [
            member
            for member, topics in self._topics.items()
            if len(self.assignment[member]) == sum(self._partition_counts[topic] for topic in topics)
            and all(len(self._wanting[partition.topic]) == 1 for partition in self.assignment[member])
        ]

    def _balance(self, partitions: Collection[TopicPartition]) -> bool:
        """Move partitions to members that have at least two fewer until none is left; return whether one moved."""
        moved_once = False
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                target = self._better_member(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = moved_once = True
        return moved_once

    def _better_member(self, partition: TopicPartition) -> str | None:
        owner = self._owners[partition]
        limit = len(self.assignment[owner]) - 1
        former = self._ownership.former.get(partition)
        if former in self._wanting[partition.topic] and len(self.assignment[former]) < limit:
            return former
        if any(len(self.assignment[member]) < limit for member in self._wanting[partition.topic]):
            return self._least(self._wanting[partition.topic])
        return None

    def _least(self, members: Iterable[str]) -> str:
        return min(members, key=lambda member: (len(self.assignment[member]), member))

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.assignment[member].append(partition)
        self._owners[partition] = member

    def _move(self, partition: TopicPartition, member: str) -> None:
        """Move a partition, or one of the same topic that came the opposite way and can go back instead."""
        partition = self._moves.instead(partition, self._owners[partition], member)
        owner = self._owners[partition]
        self._moves.note(partition, owner, member)
        self.assignment[owner].remove(partition)
        self._give(partition, member)


class _Moves:
    """The moves so far: of each partition from where it was first to where it is now."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, tuple[str, str]] = {}
        self._partitions: dict[tuple[str, str, str], list[TopicPartition]] = {}

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """Keep a move; one that leads back cancels out."""
        if partition in self._ways:
            source, former = self._ways.pop(partition)
            self._partitions[partition.topic, source, former].remove(partition)
        if source != target:
            self._ways[partition] = source, target
            self._partitions.setdefault((partition.topic, source, target), []).append(partition)

    def instead(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition whose move from `source` to `target` changes least."""
        source = self._ways.get(partition, (source, target))[0]
        back = self._partitions.get((partition.topic, target, source))
        return java_order(back, partition_hash)[0] if back else partition


def _unevenness(assignment: Assignment) -> int:
    """Return the sum of the differences between any two members."""
    sizes = sorted(map(len, assignment.values()))
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
