"""A member's next step towards the target assignment: revoke partitions, move to the epoch, or take new partitions.

A member never keeps partitions that it is no longer subscribed to, even if the target assignment, which may be older
than its subscription, includes them.

Source: KIP-848; `CurrentAssignmentBuilder` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from kafkawire.reference_broker.groups.consumer.group import (
    MEMBER_EDGES,
    NOTHING,
    ConsumerMember,
    MemberState,
    Partitions,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["reconciled"]

#: Returns whether a partition, identified by topic id and number, is owned.
IsOwned = Callable[[bytes, int], bool]


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_owned: IsOwned,
    topic_ids: Collection[bytes],
    *,
    has_changed: bool,
) -> ConsumerMember:
    """Return a member after its next step, or unchanged if it has to wait.

    Args:
        member: the current member.
        target_epoch: the epoch of the target assignment.
        target: the member's partitions in the target assignment.
        owned: the partitions that the member reports as owned, or None if it reports none.
        is_owned: returns whether any member owns a partition.
        topic_ids: the ids of the member's subscribed topics.
        has_changed: whether this request changes the member's subscription.

    Raises:
        BrokerError: FENCED_MEMBER_EPOCH if the member's state is unknown and it owns partitions.
    """
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        text = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        raise BrokerError(ErrorCode.FENCED_MEMBER_EPOCH, text)
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return _without_others(member, owned, topic_ids) if has_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, member.revoking):
        return _without_others(member, owned, topic_ids) if has_changed else member
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    added: dict[bytes, frozenset[int]] = {}
    waits = False
    for topic_id in {**target, **member.assigned}:
        wanted = target.get(topic_id, frozenset()) if topic_id in topic_ids else frozenset()
        current = member.assigned.get(topic_id, frozenset())
        missing = wanted - current
        # Partitions that the member itself has just revoked are free.
        own = member.revoking.get(topic_id, frozenset())
        free = frozenset(number for number in missing if number in own or not is_owned(topic_id, number))
        waits = waits or free != missing
        for part, numbers in ((kept, current & wanted), (revoking, current - wanted), (added, free)):
            if numbers:
                part[topic_id] = numbers
    if revoking and _still_owns(owned, revoking):
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, numbers in added.items():
        kept[topic_id] = kept.get(topic_id, frozenset()) | numbers
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, target_epoch, state, kept, NOTHING)


def _without_others(member: ConsumerMember, owned: Partitions | None, topic_ids: Collection[bytes]) -> ConsumerMember:
    """Return a member without partitions that it is not subscribed to; other steps wait for a target assignment."""
    others = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in topic_ids}
    if not others:
        return member
    kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id in topic_ids}
    revoking = {**member.revoking}
    for topic_id, numbers in others.items():
        revoking[topic_id] = revoking.get(topic_id, frozenset()) | numbers
    if _still_owns(owned, revoking):
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return _moved(member, member.epoch, member.state, kept, member.revoking)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
) -> ConsumerMember:
    since = {
        # Revoked partitions that are assigned again are considered owned from this epoch on.
        (topic_id, number): epoch
        if number not in had.get(topic_id, ())
        else member.since.get((topic_id, number), epoch)
        for part, had in ((assigned, member.assigned), (revoking, member.owned))
        for topic_id, numbers in part.items()
        for number in numbers
    }
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=MEMBER_EDGES.follow(member.state, state),
        assigned=assigned,
        revoking=revoking,
        since=since,
    )


def _still_owns(owned: Partitions | None, revoking: Partitions) -> bool:
    """Return whether a member owns, or may own, partitions that it has to revoke."""
    if owned is None:
        return True
    return any(owned.get(topic_id, frozenset()) & numbers for topic_id, numbers in revoking.items())
