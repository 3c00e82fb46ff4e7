"""Members' sessions expire when they should, and only then.

Method: proceed as in `test_rebalances.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import REBALANCE_MS, SESSION_MS, GroupBench, form, only


def test_id_that_is_not_used_expires():
    bench = GroupBench()
    told = only(bench.join(needs_id=True, now=1_000))
    bench.timers.fire(1_000 + SESSION_MS - 1)
    assert told.member_id in bench.group.pending_members
    bench.timers.fire(1_000 + SESSION_MS)
    assert only(bench.join(told.member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_silent_member_is_out_after_its_session():
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.sync(member, 1, {})
    assert bench.heartbeat(member, 1, now=4_000) == ErrorCode.NONE
    bench.timers.fire(4_000 + SESSION_MS - 1)
    assert member in bench.group.members
    bench.timers.fire(4_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY
    assert bench.group.generation_id == 2
    assert bench.heartbeat(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_waits_in_join_does_not_lose_its_session():
    bench = GroupBench()
    first = only(bench.join()).member_id
    bench.sync(first, 1, {})
    second = bench.join(now=0)
    for now in range(0, REBALANCE_MS - 1, SESSION_MS // 2):
        bench.heartbeat(first, 1, now)
        bench.timers.fire(now)
    assert len(bench.group.members) == 2
    bench.join(first, now=REBALANCE_MS - 1)
    assert only(second).error_code == ErrorCode.NONE


def test_static_member_keeps_its_place_until_its_session_ends():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    first, second = bench.join(instance="a"), bench.join(instance="b", session_timeout_ms=100_000)
    bench.timers.fire(100)
    bench.timers.fire(200)
    kept, other = only(first).member_id, only(second).member_id
    bench.sync(kept, 1, {}, now=200, instance_id="a")
    bench.sync(other, 1, now=200, instance_id="b")
    third = bench.join(instance="c", now=200)
    bench.join(other, instance="b", now=200)
    bench.timers.fire(200 + SESSION_MS)
    assert only(third).generation_id == 2, "the silent member's session ended, so all members have joined"
    assert "a" not in bench.group.static_members


def test_loaded_members_have_a_session_to_be_heard_again():
    before = GroupBench()
    member = only(before.join()).member_id
    before.sync(member, 1, {member: b"x"})
    after = before.loaded()
    after.timers.fire(SESSION_MS - 1)
    assert after.heartbeat(member, 1, SESSION_MS - 1) == ErrorCode.NONE
    after.timers.fire(2 * SESSION_MS - 2)
    assert after.group.state is GroupState.STABLE
    after.timers.fire(2 * SESSION_MS - 1)
    assert after.group.state is GroupState.EMPTY


@pytest.mark.parametrize("sign", ["sync", "join", "heartbeat", "commit"])
def test_every_sign_of_life_restarts_the_session(sign):
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = (answer.member_id for answer in form(bench, ("range",), ("range",)))
    bench.sync(leader, 1, {}, now=200)
    bench.sync(other, 1, now=200)
    bench.heartbeat(leader, 1, 9_000)
    if sign == "sync":
        bench.sync(other, 1, now=9_000)
    elif sign == "join":
        bench.join(other, now=9_000)
    elif sign == "heartbeat":
        bench.heartbeat(other, 1, 9_000)
    else:
        bench.commit(1, 1, other, now=9_000)
    bench.timers.fire(9_000 + SESSION_MS - 1)
    assert bench.group.state is GroupState.STABLE
    bench.heartbeat(leader, 1, 9_000 + SESSION_MS - 1)
    bench.timers.fire(9_000 + SESSION_MS)
    assert set(bench.group.members) == {leader}


def test_heartbeat_of_another_generation_is_no_sign_of_life():
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.sync(member, 1, {})
    assert bench.heartbeat(member, 0, 9_000) == ErrorCode.ILLEGAL_GENERATION
    bench.timers.fire(SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


def test_sync_restarts_the_session_before_the_assignment_is_there():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = (answer.member_id for answer in form(bench, ("range",), ("range",)))
    bench.heartbeat(leader, 1, 9_000)
    bench.sync(other, 1, now=9_000)
    bench.timers.fire(9_500)
    bench.sync(leader, 1, {}, now=9_500)
    bench.timers.fire(9_500 + SESSION_MS - 1)
    assert set(bench.group.members) == {leader, other}
    bench.timers.fire(9_500 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


def test_first_join_waits_five_minutes_at_most():
    bench = GroupBench()
    first = only(bench.join(rebalance_timeout_ms=3_600_000)).member_id
    bench.sync(first, 1, {})
    waiting = bench.join()
    for now in range(0, 300_000, 5_000):
        assert bench.heartbeat(first, 1, now) == ErrorCode.REBALANCE_IN_PROGRESS
        bench.timers.fire(now)
    assert not waiting
    bench.timers.fire(300_000)
    assert only(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(bench.group.members) == [first]


def test_ids_handed_out_are_limited(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.groups.classic.sessions.PENDING_MEMBERS_MAX", 2)
    bench = GroupBench()
    first, second, third = (only(bench.join(needs_id=True)).member_id for _ in range(3))
    assert list(bench.group.pending_members) == [second, third]
    assert only(bench.join(first)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert only(bench.join(third)).generation_id == 1


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000, 1])
def test_session_lasts_as_long_when_the_clock_jumps(jump_ms):
    """If the machine was suspended, a member is neither removed early nor kept for another hour."""
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.sync(member, 1, {})
    assert bench.heartbeat(member, 1, now=4_000) == ErrorCode.NONE
    bench.timers.shift(jump_ms)
    bench.timers.fire(jump_ms + 4_000 + SESSION_MS - 1)
    assert member in bench.group.members
    assert bench.heartbeat(member, 1, now=jump_ms + 5_000) == ErrorCode.NONE
    bench.timers.fire(jump_ms + 5_000 + SESSION_MS - 1)
    assert member in bench.group.members
    bench.timers.fire(jump_ms + 5_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


def test_joined_member_that_never_syncs_is_out_after_its_session():
    bench = GroupBench()
    member = only(bench.join(now=1_000)).member_id
    bench.timers.fire(1_000 + SESSION_MS - 1)
    assert member in bench.group.members
    bench.timers.fire(1_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


def test_member_that_waits_for_its_assignment_does_not_lose_its_session():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = (answer.member_id for answer in form(bench, ("range",), ("range",)))
    waiting = bench.sync(other, 1, now=200)
    for now in range(5_000, 50_001, 5_000):
        bench.heartbeat(leader, 1, now)
        bench.timers.fire(now)
    bench.sync(leader, 1, {other: b"x"}, now=50_000)
    assert only(waiting).assignment == b"x"
    assert set(bench.group.members) == {leader, other}


def test_replaced_static_member_has_a_session_of_its_own():
    bench = GroupBench()
    before = only(bench.join(instance="i")).member_id
    bench.sync(before, 1, {}, instance_id="i")
    after = only(bench.join(instance="i", now=9_000)).member_id
    bench.timers.fire(9_000 + SESSION_MS - 1)
    assert list(bench.group.members) == [after]
    bench.timers.fire(9_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


def test_loaded_member_that_is_never_heard_is_out_after_a_session():
    before = GroupBench()
    member = only(before.join()).member_id
    before.sync(member, 1, {member: b"x"})
    after = before.loaded()
    after.timers.fire(SESSION_MS - 1)
    assert after.group.state is GroupState.STABLE
    after.timers.fire(SESSION_MS)
    assert after.group.state is GroupState.EMPTY


def test_heartbeat_while_the_assignment_is_not_committed_counts():
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.log.is_committed = False
    bench.sync(member, 1, {}, now=0)
    bench.groups.heartbeat("g", 1, member, None, [].append, 5_000)
    bench.log.is_committed = True
    bench.log.commit(bench.log.next_offset)
    assert bench.group.state is GroupState.STABLE
    bench.timers.fire(5_000 + SESSION_MS - 1)
    assert member in bench.group.members
    bench.timers.fire(5_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


@pytest.mark.parametrize("jump_ms", [0, 3_600_000])
@pytest.mark.parametrize(("session_ms", "pause_ms"), [(1, 1_000), (1_000, 1_000), (1_001, 1_001), (30_000, 30_000)])
def test_member_that_waits_is_looked_at_once_a_session_with_a_pause_between(session_ms, pause_ms, jump_ms):
    bench = GroupBench(group_min_session_timeout_ms=1, group_initial_rebalance_delay_ms=100)
    bench.join(session_timeout_ms=60_000)
    joined = bench.join(session_timeout_ms=session_ms)
    bench.timers.fire(100)
    bench.timers.fire(200)
    member = bench.group.members[only(joined).member_id]
    bench.sync(member.member_id, 1, now=200)
    bench.timers.shift(jump_ms)
    bench.timers.fire(jump_ms + 200 + session_ms)
    assert member.session_timer is not None
    assert member.session_timer.deadline_ms == jump_ms + 200 + session_ms + pause_ms
