"""Assign each topic separately, in ranges of partitions.

Topics with the same number of partitions and the same subscribers are assigned identically, so a member can join
records with equal keys. The first members get the remainder. If racks matter, each member first gets partitions with a
replica in its rack, up to its share.

Source: Apache Kafka, `RangeAssignor`; KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kafkawire.sdk.groups.assignor import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    partitions_of,
    sorted_members,
    subscribed_topics,
)
from kafkawire.sdk.groups.assignors.racks import Racks
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """See `Assignor`."""

    name = "range"
    cooperative = False

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """Add nothing."""
        return None

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Assign each member a range of each topic it subscribes to."""
        members = sorted_members(subscriptions)
        assignment: Assignment = {member: [] for member in subscriptions}
        topics = []
        for topic, count in sorted(subscribed_topics(subscriptions, partition_counts).items()):
            wanting = [member for member in members if topic in subscriptions[member].topics]
            racks = Racks.of({member: subscriptions[member] for member in wanting}, {topic: count}, replica_racks)
            topics.append(_Topic(topic, count, wanting, racks, assignment))
        if any(topic.racks.matter for topic in topics):
            for alike in _alike(topics):
                _assign_alike(alike)
        for state in topics:
            state.assign_ranges(lambda member, partition: True)
        for assigned in assignment.values():
            assigned.sort()
        return assignment


class _Topic:
    """One topic while it is being assigned."""

    def __init__(self, topic: str, count: int, members: Sequence[str], racks: Racks, assignment: Assignment) -> None:
        self.topic = topic
        self.count = count
        self.members = members
        self.racks = racks
        self._assignment = assignment
        self._left = dict.fromkeys(partitions_of(topic, count))
        self._given = dict.fromkeys(members, 0)
        self._share, self._larger_shares = divmod(count, len(members))

    def room(self, member: str) -> int:
        """Return how many more partitions a member may get."""
        return max(0, self._share + (self._larger_shares > 0) - self._given[member])

    def give(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        """Assign partitions to a member that has room for them."""
        self._assignment[member].extend(partitions)
        self._given[member] += len(partitions)
        if self._given[member] > self._share:
            self._larger_shares -= 1
        for partition in partitions:
            del self._left[partition]

    def assign_ranges(self, may: Callable[[str, TopicPartition], bool]) -> None:
        """Assign each member the first remaining partitions that it may have."""
        for member in self.members:
            partitions = [partition for partition in self._left if may(member, partition)]
            if chosen := partitions[: self.room(member)]:
                self.give(member, chosen)


def _alike(topics: Iterable[_Topic]) -> Iterable[list[_Topic]]:
    """Group topics with the same subscribers and the same number of partitions."""
    groups: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        groups.setdefault((tuple(topic.members), topic.count), []).append(topic)
    return groups.values()


def _assign_alike(topics: list[_Topic]) -> None:
    """Assign partitions to members in the rack of a replica; equal partition numbers go to the same member."""
    first = topics[0]
    if len(topics) == 1:
        if first.racks.matter:
            first.assign_ranges(lambda member, partition: not first.racks.mismatch(member, partition))
        return
    for number in range(first.count):
        for member in first.members:
            if all(_near(topic, member, number) and topic.room(member) for topic in topics):
                for topic in topics:
                    topic.give(member, [TopicPartition(topic.topic, number)])
                break


def _near(topic: _Topic, member: str, number: int) -> bool:
    return not topic.racks.mismatch(member, TopicPartition(topic.topic, number))
