"""A member's next step towards the target assignment: revoke tasks, move to the epoch, or take new tasks.

A process keeps the state of a task in one directory, which its members share: a member gets a task only once no member
of its process owns the task in another role, and an active task only once no process has it as an active task.

Source: KIP-1071; `CurrentAssignmentBuilder` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkawire.reference_broker.groups.streams.group import (
    NO_TASKS,
    STREAMS_MEMBER_EDGES,
    StreamsMember,
    StreamsMemberState,
    Task,
    TaskNumbers,
    TaskOwners,
    Tasks,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["reconciled"]


def reconciled(
    member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None, owners: TaskOwners
) -> StreamsMember:
    """Return a member after its next step, or unchanged if it has to wait.

    Args:
        member: the current member.
        target_epoch: the epoch of the target assignment.
        target: the member's tasks in the target assignment.
        owned: the tasks that the member reports as owned, or None if it reports none.
        owners: the owners of all tasks, this member's process included.

    Raises:
        BrokerError: FENCED_MEMBER_EPOCH if the member's state is unknown and it owns tasks.
    """
    if member.state is StreamsMemberState.UNKNOWN:
        if owned is None or any(owned):
            text = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
            raise BrokerError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return _next(member, target_epoch, target_epoch, target, owned, owners)
    if member.is_reconciled_to(target_epoch):
        return member
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if owned is None or owned.shares_any_with(member.revoking):
            return member
        return _next(member, member.epoch + 1, target_epoch, target, owned, owners)
    return _next(member, member.epoch, target_epoch, target, owned, owners)


def _next(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, owned: Tasks | None, owners: TaskOwners
) -> StreamsMember:
    """Return a member that revokes tasks in `epoch`, or takes tasks in the target's epoch."""

    def is_unreleased(task: Task) -> bool:
        return owners.is_in(member.process_id, task)

    active = _difference(
        member.assigned.active, target.active, lambda task: task in owners.active or is_unreleased(task)
    )
    standby = _difference(member.assigned.standby, target.standby, is_unreleased)
    warmup = _difference(member.assigned.warmup, target.warmup, is_unreleased)
    (kept, revoking, added), waits = _joined(active, standby, warmup)
    if any(revoking) and (owned is None or owned.shares_any_with(revoking)):
        return _moved(member, epoch, StreamsMemberState.UNREVOKED_TASKS, kept, revoking, epoch)
    state = StreamsMemberState.UNRELEASED_TASKS if waits else StreamsMemberState.STABLE
    return _moved(member, target_epoch, state, _union(kept, added), NO_TASKS, target_epoch)


def _joined(
    *differences: tuple[TaskNumbers, TaskNumbers, TaskNumbers, bool],
) -> tuple[tuple[Tasks, Tasks, Tasks], bool]:
    kept, revoking, added, waits = zip(*differences, strict=True)
    return (Tasks(*kept), Tasks(*revoking), Tasks(*added)), any(waits)


def _difference(
    current: TaskNumbers, target: TaskNumbers, is_unreleased: Callable[[Task], bool]
) -> tuple[TaskNumbers, TaskNumbers, TaskNumbers, bool]:
    """Return the tasks to keep, to revoke and to add, and whether some of the target's tasks are not free yet."""
    kept: dict[str, frozenset[int]] = {}
    revoking: dict[str, frozenset[int]] = {}
    added: dict[str, frozenset[int]] = {}
    waits = False
    for subtopology_id in {**target, **current}:
        had, wanted = current.get(subtopology_id, frozenset()), target.get(subtopology_id, frozenset())
        missing = wanted - had
        free = frozenset(number for number in missing if not is_unreleased((subtopology_id, number)))
        waits = waits or free != missing
        for part, numbers in ((kept, had & wanted), (revoking, had - wanted), (added, free)):
            if numbers:
                part[subtopology_id] = numbers
    return kept, revoking, added, waits


def _union(one: Tasks, other: Tasks) -> Tasks:
    return Tasks(
        *(
            {key: mine.get(key, frozenset()) | theirs.get(key, frozenset()) for key in {**mine, **theirs}}
            for mine, theirs in zip(one, other, strict=True)
        )
    )


def _moved(
    member: StreamsMember, epoch: int, state: StreamsMemberState, assigned: Tasks, revoking: Tasks, added_epoch: int
) -> StreamsMember:
    since = {
        (subtopology_id, number): member.since.get((subtopology_id, number), added_epoch)
        for part in (assigned.active, revoking.active)
        for subtopology_id, numbers in part.items()
        for number in numbers
    }
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=STREAMS_MEMBER_EDGES.follow(member.state, state),
        assigned=assigned,
        revoking=revoking,
        since=since,
    )
