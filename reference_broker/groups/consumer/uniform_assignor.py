"""The uniform assignor: all members get the same number of partitions, give or take one, and keep theirs if possible.

Ties are resolved as in Kafka, by the order of Java's hash tables.

Source: KIP-848; `UniformAssignor`, `UniformHomogeneousAssignmentBuilder`, `UniformHeterogeneousAssignmentBuilder` in
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.consumer.subscribers import Subscribers
from kafkawire.sdk.protocol.java_order import java_order, long_hash, string_hash

__all__ = ["uniform_assignment"]

Key = TypeVar("Key")

#: Mutable sets of partition numbers, keyed by topic id.
Parts = dict[bytes, set[int]]

#: Maximum number of passes over the topics; each pass roughly halves the imbalance.
_ROUNDS_MAX = 16


def uniform_assignment(
    members: Subscribers, counts: Mapping[bytes, int], *, is_homogeneous: bool
) -> dict[str, Partitions]:
    """Spread partitions evenly over their subscribers.

    Args:
        members: by member id.
        counts: the number of partitions of each topic; their order breaks ties between equal hashes.
        is_homogeneous: whether all members are subscribed to the same topics.
    """
    wanted = {topic_id for member in members.values() for topic_id in member.topic_ids}
    counts = {topic_id: count for topic_id, count in counts.items() if topic_id in wanted}
    order = java_order(members, string_hash)
    assigned = _spread_same(order, members, counts) if is_homogeneous else _Levelling(order, members, counts).run()
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in parts.items() if numbers}
        for member_id, parts in assigned.items()
    }


def _spread_same(order: list[str], members: Subscribers, counts: Mapping[bytes, int]) -> dict[str, Parts]:
    """Assign partitions when all members want all topics; those above a member's quota go to members below theirs."""
    quota, extra = divmod(sum(counts.values()), len(members))
    taken = {
        (topic_id, number)
        for member in members.values()
        for topic_id, numbers in member.current.items()
        for number in numbers
    }
    free = [
        (topic_id, number)
        for topic_id in _copied_order(counts, _uuid_hash)
        for number in range(counts[topic_id])
        if (topic_id, number) not in taken
    ]
    assigned: dict[str, Parts] = {}
    wanting: list[tuple[str, int]] = []
    for place, member_id in enumerate(order):
        room = quota + (extra > 0)
        parts = assigned[member_id] = {}
        current = members[member_id].current
        for topic_id in java_order(current, _uuid_hash):
            if topic_id not in counts:
                continue
            numbers = [number for number in _copied_order(current[topic_id], int) if number < counts[topic_id]]
            parts[topic_id] = set(numbers[:room])
            free += [(topic_id, number) for number in numbers[room:]]
            room -= len(parts[topic_id])
        has_extra = extra > 0
        if has_extra and room and len(order) - place > extra:
            # This member would gain an extra partition, whereas a later member may have one to keep.
            has_extra, room = False, room - 1
        extra -= has_extra
        if room:
            wanting.append((member_id, room))
    start = 0
    for member_id, room in wanting:
        for topic_id, number in free[start : start + room]:
            assigned[member_id].setdefault(topic_id, set()).add(number)
        start += room
    return assigned


class _Levelling:
    """The assignment of partitions to members that want different topics.

    Args:
        order: the members; each is identified by its index in this list.
        members: by member id.
        counts: the number of partitions of each topic.
    """

    def __init__(self, order: list[str], members: Subscribers, counts: Mapping[bytes, int]) -> None:
        self._order = order
        self._counts = counts
        self._loads = [0] * len(order)
        self._wanting: dict[bytes, list[int]] = {}
        self._owners: dict[bytes, list[int | None]] = {topic_id: [None] * count for topic_id, count in counts.items()}
        for place, member_id in enumerate(order):
            member = members[member_id]
            for topic_id in member.topic_ids:
                self._wanting.setdefault(topic_id, []).append(place)
                for number in member.current.get(topic_id, ()):
                    self._give(topic_id, number, place)

    def run(self) -> dict[str, Parts]:
        """Return the assignment: give unowned partitions to the members with the fewest, and then level the loads."""
        ordered = sorted(self._wanting, key=self._rank)
        for topic_id in ordered:
            ladder = _Ladder(self._wanting[topic_id], self._loads)
            for number, owner in enumerate(self._owners[topic_id]):
                if owner is None:
                    self._give(topic_id, number, ladder.next_poor())
        self._level([topic_id for topic_id in ordered if len(self._wanting[topic_id]) > 1])
        assigned: dict[str, Parts] = {member_id: {} for member_id in self._order}
        for topic_id, owners in self._owners.items():
            for number, owner in enumerate(owners):
                if owner is not None:
                    assigned[self._order[owner]].setdefault(topic_id, set()).add(number)
        return assigned

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """Return a topic's rank: topics with more partitions per subscriber come first."""
        wanting = len(self._wanting[topic_id])
        return -self._counts[topic_id] / wanting, wanting, _halves(topic_id)

    def _level(self, ordered: list[bytes]) -> None:
        """Go through the topics until a complete pass moves no partition."""
        last: bytes | None = None
        for _ in range(_ROUNDS_MAX):
            for topic_id in ordered:
                if topic_id == last:
                    return
                if self._level_topic(topic_id) or last is None:
                    last = topic_id

    def _level_topic(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from members with the most to those with the fewest; return whether any moved."""
        ladder = _Ladder(self._wanting[topic_id], self._loads)
        if ladder.is_level_at_first:
            return False
        owned: dict[int | None, list[int]] = {}
        for number, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(number)
        has_moved = False
        while not ladder.is_level():
            rich = ladder.next_rich()
            while rich is not None and not owned.get(rich):
                ladder.leave_out_rich()
                rich = ladder.next_rich()
            if rich is None:
                break
            number = owned[rich].pop()
            poor = ladder.next_poor()
            if ladder.is_level():
                break
            self._give(topic_id, number, poor)
            has_moved = True
        return has_moved

    def _give(self, topic_id: bytes, number: int, place: int) -> None:
        owners = self._owners[topic_id]
        if number >= len(owners):
            return
        before = owners[number]
        if before is not None:
            self._loads[before] -= 1
        owners[number] = place
        self._loads[place] += 1


class _Ladder:
    """Members ordered by load, with the next member to receive a partition, and the next to give one away.

    Each of the two cycles through the members with the same load, and adds those with the next load after each cycle.

    Args:
        members: by index.
        loads: the number of partitions of each member, by index, which changes during the run.
    """

    def __init__(self, members: list[int], loads: list[int]) -> None:
        self._loads = loads
        self._sorted = sorted(members, key=lambda place: (loads[place], place))
        lowest, highest = loads[self._sorted[0]], loads[self._sorted[-1]]
        self.is_level_at_first = highest - lowest <= 1
        self._poor_end, self._poor_load, self._next_poor = 0, lowest - 1, 0
        self._rich_start = self._rich_end = len(self._sorted)
        self._rich_load, self._next_rich = highest + 1, len(self._sorted) - 1

    def is_level(self) -> bool:
        """Whether moving another partition would not help."""
        return self._rich_load - self._poor_load <= 1

    def next_poor(self) -> int:
        """Return the member to receive the next partition."""
        if self._next_poor >= self._poor_end:
            self._poor_load += 1
            while self._poor_end < len(self._sorted) and self._load(self._poor_end) == self._poor_load:
                self._poor_end += 1
            self._next_poor = 0
        self._next_poor += 1
        return self._sorted[self._next_poor - 1]

    def next_rich(self) -> int | None:
        """Return the member to give away the next partition, or None if no member is left."""
        if self._next_rich < self._rich_start:
            if self._rich_end <= self._rich_start and self._rich_start > 0:
                self._rich_load = self._load(self._rich_start - 1)
            else:
                self._rich_load -= 1
            while self._rich_start > 0 and self._load(self._rich_start - 1) == self._rich_load:
                self._rich_start -= 1
            self._next_rich = self._rich_end - 1
        if self._next_rich < 0:
            return None
        self._next_rich -= 1
        return self._sorted[self._next_rich + 1]

    def leave_out_rich(self) -> None:
        """Exclude the member last returned by `next_rich`, which has no partition to give."""
        here, end = self._next_rich + 1, self._rich_end - 1
        self._sorted[here], self._sorted[end] = self._sorted[end], self._sorted[here]
        self._rich_end = end

    def _load(self, rank: int) -> int:
        return self._loads[self._sorted[rank]]


def _halves(topic_id: bytes) -> tuple[int, int]:
    """Return an id as two signed numbers, which is how Java compares ids."""
    return int.from_bytes(topic_id[:8], "big", signed=True), int.from_bytes(topic_id[8:], "big", signed=True)


def _uuid_hash(topic_id: bytes) -> int:
    first, second = _halves(topic_id)
    return long_hash((first ^ second) & (1 << 64) - 1)


def _copied_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return keys in the order of a hash table that was created for all of them at once, and may have more buckets."""
    buckets = 16
    while buckets < int(len(keys) / 0.75) + 1:
        buckets *= 2

    def bucket(key: Key) -> int:
        hashed = hash_of(key)
        return (hashed ^ hashed >> 16) & buckets - 1

    return sorted(keys, key=bucket)
