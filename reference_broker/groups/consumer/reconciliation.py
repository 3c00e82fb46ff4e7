"""What a member is told next on its way to the target assignment: revoke first, then move to the epoch, then take over.

Source: KIP-848; `CurrentAssignmentBuilder` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkawire.reference_broker.groups.consumer.group import NOTHING, ConsumerMember, MemberState, Partitions

__all__ = ["reconciled"]

#: Whether a partition is owned, by topic id and number.
IsOwned = Callable[[bytes, int], bool]


def reconciled(
    member: ConsumerMember, target_epoch: int, target: Partitions, owned: Partitions | None, is_owned: IsOwned
) -> ConsumerMember:
    """Return a member after its next step, the same if it has to wait.

    Args:
        member: as it is.
        target_epoch: of the target assignment.
        target: what it is to own.
        owned: what it says that it owns, None if it does not say.
        is_owned: whether any member owns a partition.
    """
    if member.state is MemberState.STABLE:
        return (
            member
            if member.epoch == target_epoch
            else _next(member, member.epoch, target_epoch, target, owned, is_owned)
        )
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(owned, member.revoking):
            return member
        return _next(member, member.epoch + 1, target_epoch, target, owned, is_owned)
    return _next(member, member.epoch, target_epoch, target, owned, is_owned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_owned: IsOwned,
) -> ConsumerMember:
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    added: dict[bytes, frozenset[int]] = {}
    waits = False
    for topic_id in {**target, **member.assigned}:
        wanted = target.get(topic_id, frozenset())
        current = member.assigned.get(topic_id, frozenset())
        missing = wanted - current
        free = frozenset(number for number in missing if not is_owned(topic_id, number))
        waits = waits or free != missing
        for part, numbers in ((kept, current & wanted), (revoking, current - wanted), (added, free)):
            if numbers:
                part[topic_id] = numbers
    if revoking and _still_owns(owned, revoking):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, numbers in added.items():
        kept[topic_id] = kept.get(topic_id, frozenset()) | numbers
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, target_epoch, state, kept, NOTHING)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
) -> ConsumerMember:
    previous = member.epoch if epoch != member.epoch else member.previous_epoch
    since = {
        (topic_id, number): member.since.get((topic_id, number), epoch)
        for part in (assigned, revoking)
        for topic_id, numbers in part.items()
        for number in numbers
    }
    return replace(
        member, epoch=epoch, previous_epoch=previous, state=state, assigned=assigned, revoking=revoking, since=since
    )


def _still_owns(owned: Partitions | None, revoking: Partitions) -> bool:
    """Return whether a member owns, or may own, what it is to revoke."""
    if owned is None:
        return True
    return any(owned.get(topic_id, frozenset()) & numbers for topic_id, numbers in revoking.items())
