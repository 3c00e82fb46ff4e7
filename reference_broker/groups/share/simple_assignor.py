"""The simple assignor: partitions have about the same number of members each, and members of partitions, too.

Unlike a consumer group's, a share group's partition may have several members. If there are more members than
partitions, members share partitions; otherwise, each partition has one member. Members keep their partitions where that
is possible.

Source: `SimpleAssignor`, `SimpleHomogeneousAssignmentBuilder`, `SimpleHeterogeneousAssignmentBuilder` in Apache Kafka;
where it gives partitions in the order of Java's hash tables, this assignor gives them in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple, TypeVar

from kafkawire.reference_broker.groups.consumer.group import Partitions

__all__ = ["SIMPLE_ASSIGNOR", "ShareSubscriber", "simple_assignment"]

#: The name of the assignor.
SIMPLE_ASSIGNOR = "simple"

Slot = tuple[bytes, int]

K = TypeVar("K")


class ShareSubscriber(NamedTuple):
    """The topics of a member, and its partitions in the last assignment."""

    topic_ids: frozenset[bytes]
    current: Partitions


def simple_assignment(
    members: Mapping[str, ShareSubscriber], assignable: Mapping[bytes, Collection[int]]
) -> dict[str, Partitions]:
    """Return the partitions of each member.

    Args:
        members: the members, keyed by id.
        assignable: the partitions that may be assigned, keyed by topic id.
    """
    assigned: dict[str, list[Slot]] = {member_id: [] for member_id in members}
    topic_ids = {topic_id for member in members.values() for topic_id in member.topic_ids}
    is_homogeneous = all(member.topic_ids == topic_ids for member in members.values())
    # If all members have the same topics, all partitions are shared out at once; otherwise, topic by topic.
    for part in [topic_ids] if is_homogeneous else [{topic_id} for topic_id in sorted(topic_ids)]:
        slots = [(topic_id, number) for topic_id in sorted(part) for number in sorted(assignable.get(topic_id, ()))]
        subscribed = [member_id for member_id, member in members.items() if not part.isdisjoint(member.topic_ids)]
        current = {member_id: _slots(members[member_id].current, slots) for member_id in subscribed}
        for member_id, given in _shared(slots, subscribed, current).items():
            assigned[member_id] += given
    return {member_id: _partitions(slots) for member_id, slots in assigned.items()}


def _shared(
    slots: Sequence[Slot], members: Sequence[str], current: Mapping[str, Iterable[Slot]]
) -> dict[str, list[Slot]]:
    """Share partitions among members; return the partitions of each member."""
    assigned: dict[str, dict[Slot, None]] = {member_id: dict.fromkeys(current[member_id]) for member_id in members}
    if not slots or not members:
        return {member_id: [] for member_id in members}
    sharing = -(-len(members) // len(slots))
    exact = sharing * len(slots) / len(members)
    quotas = {member_id: ceil(exact * (number + 1)) - ceil(exact * number) for number, member_id in enumerate(members)}
    for member_id, own in assigned.items():
        while len(own) > quotas[member_id]:
            del own[next(iter(own))]
    sharers: dict[Slot, dict[str, None]] = {slot: {} for slot in slots}
    for member_id, own in assigned.items():
        for slot in own:
            sharers[slot][member_id] = None
    for slot, sharing_it in sharers.items():
        while len(sharing_it) > sharing:
            member_id = next(iter(sharing_it))
            del sharing_it[member_id], assigned[member_id][slot]
    _fill(sharers, assigned, quotas, sharing)
    return {member_id: list(own) for member_id, own in assigned.items()}


def _fill(
    sharers: dict[Slot, dict[str, None]],
    assigned: dict[str, dict[Slot, None]],
    quotas: Mapping[str, int],
    sharing: int,
) -> None:
    """Give partitions with too few members to members with too few partitions, in turn."""
    unfilled = [member_id for member_id, own in assigned.items() if len(own) < quotas[member_id]]
    turn = 0
    for slot, sharing_it in sharers.items():
        passed = 0
        while len(sharing_it) < sharing and passed < len(unfilled):
            turn %= len(unfilled)
            member_id = unfilled[turn]
            if member_id in sharing_it:
                # The member has this partition already; a slight imbalance is harmless.
                turn, passed = turn + 1, passed + 1
                continue
            sharing_it[member_id] = assigned[member_id][slot] = None
            passed = 0
            if len(assigned[member_id]) >= quotas[member_id]:
                del unfilled[turn]
            else:
                turn += 1


def _slots(partitions: Partitions, slots: Sequence[Slot]) -> list[Slot]:
    known = set(slots)
    return [
        (topic_id, number)
        for topic_id, numbers in sorted(partitions.items())
        for number in sorted(numbers)
        if (topic_id, number) in known
    ]


def _partitions(slots: Iterable[Slot]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, number in slots:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}
