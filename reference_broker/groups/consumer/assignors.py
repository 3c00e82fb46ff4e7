"""The assignors of KIP-848 that run in the broker: uniform spreads evenly and moves little, range keeps partitions of
the same number together.

Source: KIP-848; `UniformAssignor`, `RangeAssignor` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.groups.consumer.group import Partitions

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Subscriber", "range_assignment", "uniform_assignment"]


class Subscriber(NamedTuple):
    """A member as assignors see it: its instance id, topic ids, and what it has by the last assignment."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    current: Partitions


Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, Partitions]]


def uniform_assignment(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Spread partitions evenly over the members that want them; who has one keeps it if that is even.

    Args:
        members: by member id.
        counts: partitions of each topic.
    """
    assigned = {member_id: _kept(member, counts) for member_id, member in members.items()}
    taken = {partition for owned in assigned.values() for partition in owned}
    for topic_id in sorted(counts):
        wanting = sorted(member_id for member_id, member in members.items() if topic_id in member.topic_ids)
        for number in range(counts[topic_id] if wanting else 0):
            if (topic_id, number) not in taken:
                poorest = min(wanting, key=lambda member_id: len(assigned[member_id]))
                assigned[poorest].add((topic_id, number))
    _level(assigned, members)
    return {member_id: _by_topic(owned) for member_id, owned in assigned.items()}


def _kept(member: Subscriber, counts: Mapping[bytes, int]) -> set[tuple[bytes, int]]:
    return {
        (topic_id, number)
        for topic_id, numbers in member.current.items()
        if topic_id in member.topic_ids
        for number in numbers
        if number < counts.get(topic_id, 0)
    }


def _level(assigned: dict[str, set[tuple[bytes, int]]], members: Mapping[str, Subscriber]) -> None:
    """Move partitions from members that have more to those that have at least two fewer, until there are none."""
    moved = True
    while moved:
        moved = False
        for rich in sorted(assigned, key=lambda member_id: -len(assigned[member_id])):
            for partition in sorted(assigned[rich], reverse=True):
                poor = min(
                    (other for other, member in members.items() if partition[0] in member.topic_ids),
                    key=lambda member_id: (len(assigned[member_id]), member_id),
                )
                if len(assigned[rich]) - len(assigned[poor]) < 2:
                    continue
                assigned[rich].remove(partition)
                assigned[poor].add(partition)
                moved = True


def range_assignment(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Give each member that wants a topic a range of it, in the same order of members for each topic.

    Args:
        members: by member id; static members come first, in the order of their instance ids.
        counts: partitions of each topic.
    """
    order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))
    assignment: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, count in counts.items():
        wanting = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        start = 0
        for place, member_id in enumerate(wanting):
            end = start + count // len(wanting) + (place < count % len(wanting))
            if end > start:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignment)


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


def _by_topic(owned: set[tuple[bytes, int]]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, number in owned:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


#: By the names that members ask for.
ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform_assignment, "range": range_assignment}

DEFAULT_ASSIGNOR = "uniform"
