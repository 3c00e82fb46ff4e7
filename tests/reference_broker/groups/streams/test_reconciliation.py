"""A member revokes tasks before it takes over others, and waits for tasks that others, or its process, still own.

Method: take steps from given states.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from kafkawire.reference_broker.groups.streams.group import (
    NO_TASKS,
    STREAMS_MEMBER_EDGES,
    StreamsMember,
    StreamsMemberState,
    TaskOwners,
    Tasks,
)
from kafkawire.reference_broker.groups.streams.reconciliation import reconciled
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.edges import taken
from tests.reference_broker.groups.streams.streams_bench import tasks

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = StreamsMemberState

ZERO, ONE, BOTH = tasks({"x": (0,)}), tasks({"x": (1,)}), tasks({"x": (0, 1)})


def step(
    member: StreamsMember, target: Tasks, said: Tasks | None, others: tuple[StreamsMember, ...] = (), epoch: int = 5
) -> StreamsMember:
    owners = TaskOwners({}, {}, {})
    for each in (*others, member):
        owners.add(each)
    return reconciled(member, epoch, target, said, owners)


def member(assigned: Tasks = NO_TASKS, **changes: Any) -> StreamsMember:
    new = StreamsMember("m", process_id="p", epoch=3, previous_epoch=2, assigned=assigned)
    return replace(new, since=dict.fromkeys([("x", n) for n in assigned.active.get("x", ())], 1), **changes)


def other(assigned: Tasks, process: str = "q") -> StreamsMember:
    return StreamsMember("n", process_id=process, assigned=assigned)


def test_member_that_is_there_stays() -> None:
    there = member(ZERO, epoch=5)
    assert step(there, BOTH, None) is there


def test_task_keeps_its_epoch_while_it_is_revoked() -> None:
    """The member's last commit for it may have any epoch since then."""
    moved = step(member(BOTH), ONE, BOTH)
    assert (moved.state, moved.assigned, moved.revoking) == (UNREVOKED, ONE, ZERO)
    assert moved.since == {("x", 0): 1, ("x", 1): 1}


def test_new_member_takes_what_is_free() -> None:
    moved = step(member(), BOTH, Tasks(), (other(ONE),))
    assert (moved.epoch, moved.previous_epoch, moved.state) == (5, 3, UNRELEASED)
    assert (moved.assigned, moved.since) == (ZERO, {("x", 0): 5})


def test_member_revokes_first() -> None:
    moved = step(member(BOTH), ONE, None)
    assert (moved.epoch, moved.state, moved.assigned, moved.revoking) == (3, UNREVOKED, ONE, ZERO)
    assert step(moved, ONE, None) is moved
    assert step(moved, ONE, BOTH) is moved
    done = step(moved, ONE, ONE)
    assert (done.epoch, done.state, done.assigned, done.revoking) == (5, STABLE, ONE, Tasks())
    assert done.since == {("x", 1): 1}


def test_member_that_does_not_have_them_any_more_moves_at_once() -> None:
    assert step(member(BOTH), ONE, Tasks()).state is STABLE


def test_more_to_revoke() -> None:
    revoking = member(ONE, state=UNREVOKED, revoking=ZERO)
    moved = step(revoking, Tasks(), ONE)
    assert (moved.epoch, moved.state, moved.revoking) == (4, UNREVOKED, ONE)


def test_task_that_the_member_itself_has_just_revoked_waits_for_the_record() -> None:
    revoking = member(ONE, state=UNREVOKED, revoking=ZERO)
    moved = step(revoking, BOTH, ONE)
    assert (moved.state, moved.assigned) == (UNRELEASED, ONE)
    assert step(moved, BOTH, ONE).assigned == BOTH


@pytest.mark.parametrize("role", [0, 1, 2])
@pytest.mark.parametrize("had", [0, 1, 2])
def test_process_has_a_task_only_once(role: int, had: int) -> None:
    wanted, theirs = (Tasks(*(ZERO.active if place == each else {} for place in range(3))) for each in (role, had))
    same = step(member(), wanted, Tasks(), (other(theirs, "p"),))
    assert same.state is UNRELEASED
    elsewhere = step(member(), wanted, Tasks(), (other(theirs),))
    assert elsewhere.state is (UNRELEASED if role == had == 0 else STABLE)


def test_released_tasks_arrive_later() -> None:
    waiting = member(ZERO, state=UNRELEASED, epoch=5)
    assert step(waiting, BOTH, None, (other(ONE),)).assigned == ZERO
    moved = step(waiting, BOTH, None)
    assert (moved.state, moved.assigned, moved.since) == (STABLE, BOTH, {("x", 0): 1, ("x", 1): 5})


def test_unknown_state() -> None:
    for said in (None, ZERO):
        with pytest.raises(BrokerError) as raised:
            step(member(state=UNKNOWN), ZERO, said)
        assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(member(state=UNKNOWN), ZERO, Tasks()).assigned == ZERO


def test_every_edge() -> None:
    with taken(STREAMS_MEMBER_EDGES) as steps:
        for state, had, revoking, target, said, is_taken in product(
            StreamsMemberState,
            (Tasks(), ZERO),
            (Tasks(), ONE),
            (Tasks(), ZERO, BOTH),
            (None, Tasks(), ZERO),
            (False, True),
        ):
            with suppress(BrokerError):
                step(member(had, state=state, revoking=revoking), target, said, (other(ONE),) if is_taken else ())
    assert steps == set(STREAMS_MEMBER_EDGES)
