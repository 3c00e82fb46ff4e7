"""Build a sticky assignment for members with different subscriptions; balance matters more than keeping moves few.

Members keep the partitions that they own and still subscribe to. Every other partition goes to the subscriber with the
fewest partitions. Then partitions move from members with more to members with fewer until no move helps; if the result
is no better balanced, the moves are undone.

Source: Apache Kafka, `AbstractStickyAssignor.GeneralAssignmentBuilder`; KIP-54, KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkawire.sdk.groups.assignor import Assignment, PartitionCounts, Subscriptions, partitions_of
from kafkawire.sdk.groups.assignors.ownership import Ownership
from kafkawire.sdk.groups.assignors.racks import Racks
from kafkawire.sdk.protocol.java_order import java_order, string_hash
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["GeneralAssignmentBuilder", "partition_hash"]


class GeneralAssignmentBuilder:
    """Build one assignment.

    Args:
        subscriptions: the subscriptions, keyed by member id.
        partition_counts: the partition count of every subscribed topic.
        ownership: the partitions each member owned.
        racks: the racks of the members and the replicas.

    Attributes:
        assignment: the partitions assigned to each member; complete after `build`.
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
        self._subscribers = {
            topic: [member for member, topics in self._topics.items() if topic in topics] for topic in partition_counts
        }
        self._owners: dict[TopicPartition, str] = {}
        self._moves = _Moves()

    def build(self) -> None:
        """Fill `assignment`."""
        revoked = self._assign_owned()
        # Topics with the fewest subscribers come first.
        topics = sorted(self._partition_counts, key=lambda topic: (len(self._subscribers[topic]), topic))
        partitions = [each for topic in topics for each in partitions_of(topic, self._partition_counts[topic])]
        left = [partition for partition in partitions if partition not in self._owners]
        fresh = not any(self.assignment.values())
        self._assign_all(left)
        movable = [partition for partition in partitions if len(self._subscribers[partition.topic]) > 1]
        fixed = {member: self.assignment.pop(member) for member in self._fixed_members()}
        before = {member: list(assigned) for member, assigned in self.assignment.items()}
        if not revoked:
            self._balance([partition for partition in left if len(self._subscribers[partition.topic]) > 1])
        moved = self._balance(movable)
        if moved and not fresh and _balance_score(self.assignment) >= _balance_score(before):
            self.assignment = before
        self.assignment.update(fixed)

    def _assign_owned(self) -> bool:
        """Let members keep their partitions where they may; return whether any partition was revoked."""
        revoked = False
        for member, partitions in self._ownership.owned.items():
            for partition in partitions:
                if partition.topic not in self._topics[member] or self._racks.mismatch(member, partition):
                    revoked = True
                else:
                    self.assignment[member].append(partition)
                    self._owners[partition] = member
        return revoked

    def _assign_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign each partition to the subscriber with the fewest partitions, in the rack of a replica if possible."""
        elsewhere = []
        if self._racks.matter:
            for partition in partitions:
                in_rack = [m for m in self._subscribers[partition.topic] if not self._racks.mismatch(m, partition)]
                if in_rack:
                    self._assign(partition, self._least(in_rack))
                else:
                    elsewhere.append(partition)
            partitions = elsewhere
        for partition in partitions:
            self._assign(partition, self._least(self._subscribers[partition.topic]))

    def _fixed_members(self) -> list[str]:
        """Return the members whose topics have no other subscriber and that own all partitions of those topics."""
        return [
            member
            for member, topics in self._topics.items()
            if len(self.assignment[member]) == sum(self._partition_counts[topic] for topic in topics)
            and all(len(self._subscribers[partition.topic]) == 1 for partition in self.assignment[member])
        ]

    def _balance(self, partitions: Collection[TopicPartition]) -> bool:
        """Move partitions to members that have at least two fewer, until none can move; return whether any moved."""
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
        if former in self._subscribers[partition.topic] and len(self.assignment[former]) < limit:
            return former
        if any(len(self.assignment[member]) < limit for member in self._subscribers[partition.topic]):
            return self._least(self._subscribers[partition.topic])
        return None

    def _least(self, members: Iterable[str]) -> str:
        return min(members, key=lambda member: (len(self.assignment[member]), member))

    def _assign(self, partition: TopicPartition, member: str) -> None:
        self.assignment[member].append(partition)
        self._owners[partition] = member

    def _move(self, partition: TopicPartition, member: str) -> None:
        """Move a partition, or send back a partition of the same topic that has moved the opposite way."""
        partition = self._moves.instead(partition, self._owners[partition], member)
        owner = self._owners[partition]
        self._moves.note(partition, owner, member)
        self.assignment[owner].remove(partition)
        self._assign(partition, member)


class _Moves:
    """The moves so far: the first and the current owner of each partition."""

    def __init__(self) -> None:
        self._routes: dict[TopicPartition, tuple[str, str]] = {}
        self._partitions: dict[tuple[str, str, str], list[TopicPartition]] = {}

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record a move; moving back to the first owner cancels it."""
        if partition in self._routes:
            source, former = self._routes.pop(partition)
            self._partitions[partition.topic, source, former].remove(partition)
        if source != target:
            self._routes[partition] = source, target
            self._partitions.setdefault((partition.topic, source, target), []).append(partition)

    def instead(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move from `source` to `target` so that the fewest partitions change owner."""
        source = self._routes.get(partition, (source, target))[0]
        back = self._partitions.get((partition.topic, target, source))
        return java_order(back, partition_hash)[0] if back else partition


def partition_hash(partition: TopicPartition) -> int:
    """Return the hash code of `org.apache.kafka.common.TopicPartition`, unsigned."""
    return (31 + partition.partition) * 31 + string_hash(partition.topic) & 0xFFFFFFFF


def _balance_score(assignment: Assignment) -> int:
    """Return the sum of the differences in size between all pairs of members; 0 is a perfect balance."""
    sizes = sorted(map(len, assignment.values()))
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
