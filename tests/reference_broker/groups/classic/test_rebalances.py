"""Rebalances of classic groups end as in Kafka, with the same members, leader, assignments and failed writes.

Method: use a coordinator with an in-memory log and explicit times, and collect answers in lists.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import REBALANCE_MS, SESSION_MS, GroupBench, form, only


def test_initial_delay_gathers_members():
    bench = GroupBench(group_initial_rebalance_delay_ms=3_000)
    first = bench.join(now=0)
    assert not first
    second = bench.join(now=2_000)
    bench.timers.fire(3_000)
    assert not first, "a member joined in the meantime, so the delay starts again"
    bench.timers.fire(6_000)
    assert only(first).generation_id == only(second).generation_id == 1
    assert len(only(first).members) == 2
    assert not only(second).members, "only the leader is sent the members"


def test_most_wanted_common_protocol_is_selected():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    answers = form(bench, ("a", "b"), ("b", "a"), ("b", "c", "a"))
    assert {answer.protocol_name for answer in answers} == {"b"}


def test_second_member_makes_the_first_join_again():
    bench = GroupBench()
    first = only(bench.join())
    bench.sync(first.member_id, 1, {first.member_id: b"all"})
    second = bench.join()
    assert not second
    assert bench.heartbeat(first.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = only(bench.join(first.member_id))
    assert again.generation_id == only(second).generation_id == 2
    assert {member.member_id for member in again.members} == {first.member_id, only(second).member_id}


def test_member_that_does_not_join_again_is_out_after_the_rebalance_timeout():
    bench = GroupBench()
    first = only(bench.join())
    bench.sync(first.member_id, 1, {})
    second = bench.join(now=1)
    for now in range(SESSION_MS // 2, REBALANCE_MS, SESSION_MS // 2):
        bench.heartbeat(first.member_id, 1, now)
        bench.timers.fire(now)
    assert not second
    bench.timers.fire(1 + REBALANCE_MS)
    assert list(bench.group.members) == [only(second).member_id]
    assert only(second).leader == only(second).member_id
    assert bench.heartbeat(first.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_assignments_reach_members_when_the_leader_sends_them():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    waiting = bench.sync(other.member_id, 1)
    assert not waiting
    own = bench.sync(leader.member_id, 1, {leader.member_id: b"L", other.member_id: b"O"})
    assert (only(own).assignment, only(waiting).assignment) == (b"L", b"O")
    assert (only(own).protocol_type, only(own).protocol_name) == ("consumer", "range")
    assert bench.group.state is GroupState.STABLE
    assert len(bench.log.batches) == 2, "the new group and its assignment are stored"
    assert only(bench.sync(other.member_id, 1)).assignment == b"O", "a stable group answers immediately"


def test_new_rebalance_ends_waiting_syncs():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    waiting = bench.sync(other.member_id, 1)
    bench.join(now=200)
    assert only(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert only(bench.sync(leader.member_id, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_member_without_sync_is_out_after_the_rebalance_timeout():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    bench.sync(leader.member_id, 1, {})
    for now in range(SESSION_MS // 2, REBALANCE_MS + 200, SESSION_MS // 2):
        for member in (leader, other):
            bench.heartbeat(member.member_id, 1, now)
        bench.timers.fire(now)
    bench.timers.fire(REBALANCE_MS + 200)
    assert list(bench.group.members) == [leader.member_id]
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_each_generation_has_its_own_time_to_sync():
    bench = GroupBench()
    long: dict[str, Any] = {"session_timeout_ms": 10 * REBALANCE_MS}
    first = only(bench.join(**long)).member_id
    second = bench.join(now=1_000, **long)
    bench.join(first, now=1_000, **long)
    bench.timers.fire(REBALANCE_MS)
    assert set(bench.group.members) == {first, only(second).member_id}
    bench.timers.fire(1_000 + REBALANCE_MS)
    assert not bench.group.members


def test_static_member_that_neither_joins_again_nor_syncs_is_out_after_both_timeouts():
    """Because its session is long, it keeps its place while other members join, but not while they sync."""
    bench = GroupBench()
    long: dict[str, Any] = {"session_timeout_ms": 10 * REBALANCE_MS}
    silent = only(bench.join(instance="a", **long)).member_id
    bench.sync(silent, 1, {}, instance_id="a")
    other = bench.join(instance="b", **long)
    bench.timers.fire(REBALANCE_MS)
    assert set(bench.group.members) == {silent, only(other).member_id}
    bench.sync(only(other).member_id, 2, {}, now=REBALANCE_MS, instance_id="b")
    bench.timers.fire(2 * REBALANCE_MS)
    assert set(bench.group.members) == {only(other).member_id}


def test_leader_leaves_and_the_next_one_leads():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    bench.leave(leader.member_id, now=200)
    again = only(bench.join(other.member_id, now=200))
    assert (again.leader, again.generation_id) == (other.member_id, 2)


def test_last_member_leaves_an_empty_group_behind():
    bench = GroupBench()
    member = only(bench.join()).member_id
    assert bench.leave("nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave(member) == ErrorCode.NONE
    assert (bench.group.state, bench.group.generation_id) == (GroupState.EMPTY, 2)
    assert only(bench.join()).generation_id == 3


def test_group_knows_since_when_it_is_empty():
    """The group's offsets expire after the retention time, even if the broker is restarted."""
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.leave(member, now=200)
    assert bench.group.state_changed_ms == bench.loaded().group.state_changed_ms == 200


def test_failed_write_is_told_to_everybody_and_the_group_tries_again():
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert only(bench.sync(member, 1, {member: b"x"})).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group.state is GroupState.PREPARING_REBALANCE
    bench.log.error = None
    again = only(bench.join(member))
    assert only(bench.sync(member, again.generation_id, {member: b"y"})).assignment == b"y"


def test_assignment_counts_once_it_is_committed():
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.log.is_committed = False
    waiting = bench.sync(member, 1, {member: b"x"})
    assert not waiting
    assert bench.group.state is GroupState.COMPLETING_REBALANCE
    bench.log.commit(bench.log.next_offset)
    assert only(waiting).assignment == b"x"
    assert bench.group.state is GroupState.STABLE


def test_assignment_that_is_too_late_changes_nothing():
    bench = GroupBench()
    member = only(bench.join()).member_id
    bench.log.is_committed = False
    waiting = bench.sync(member, 1, {member: b"x"})
    second = bench.join()
    assert only(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.log.commit(bench.log.next_offset)
    assert bench.group.state is GroupState.PREPARING_REBALANCE
    bench.join(member)
    assert only(second).generation_id == 2
    assert bench.group.members[member].assignment == b""


@pytest.mark.parametrize("rebalance_ms", [0, -5])
def test_group_in_which_nobody_joins_again_does_not_look_without_a_pause(rebalance_ms):
    bench = GroupBench(group_min_session_timeout_ms=0)
    short = {"rebalance_timeout_ms": rebalance_ms, "session_timeout_ms": 1_000}
    first = only(bench.join(instance="a", **short)).member_id
    bench.sync(first, 1, {}, instance_id="a")
    waiting = bench.join(instance="b", **short)
    assert bench.leave("", instance="b") == ErrorCode.NONE
    assert only(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    looks = now = 0
    while bench.group.members:
        deadline = bench.timers.next_deadline_ms
        assert deadline is not None
        now = deadline
        bench.timers.fire(now)
        looks += 1
        assert looks < 20
    assert 900 <= now <= 1_100
    assert (bench.group.state, bench.group.generation_id) == (GroupState.EMPTY, 2)


def test_initial_delay_is_kept_even_if_members_are_in_a_hurry():
    bench = GroupBench(group_initial_rebalance_delay_ms=3_000)
    first = bench.join(rebalance_timeout_ms=1_000)
    bench.join(rebalance_timeout_ms=1_000, now=500)
    bench.timers.fire(2_999)
    assert not first
    bench.timers.fire(3_000)
    assert only(first).generation_id == 1


def test_initial_delay_is_extended_up_to_the_rebalance_timeout():
    bench = GroupBench(group_initial_rebalance_delay_ms=3_000)
    first = bench.join(rebalance_timeout_ms=7_000)
    for now in (2_000, 5_000):
        bench.join(now=now, rebalance_timeout_ms=7_000)
        bench.timers.fire(now + 1_000)
        assert not first
    bench.join(now=6_500, rebalance_timeout_ms=7_000)
    bench.timers.fire(6_999)
    assert not first
    bench.timers.fire(7_000)
    assert only(first).generation_id == 1
    assert len(only(first).members) == 4


def test_initial_delay_is_extended_by_as_little_as_is_left():
    bench = GroupBench(group_initial_rebalance_delay_ms=3_000)
    first = bench.join(rebalance_timeout_ms=3_001)
    bench.join(now=2_000, rebalance_timeout_ms=3_001)
    bench.timers.fire(3_000)
    assert not first
    bench.timers.fire(3_001)
    assert len(only(first).members) == 2


def test_group_whose_first_member_leaves_in_the_initial_delay_is_empty_after_it():
    bench = GroupBench(group_initial_rebalance_delay_ms=3_000)
    member = only(bench.join(needs_id=True)).member_id
    joining = bench.join(member)
    bench.leave(member)
    assert only(joining).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.group.state is GroupState.PREPARING_REBALANCE
    bench.timers.fire(3_000)
    assert (bench.group.state, bench.group.generation_id) == (GroupState.EMPTY, 1)
    again = bench.loaded().group
    assert (again.generation_id, again.state_changed_ms) == (1, 3_000)


def test_id_handed_out_is_waited_for():
    bench = GroupBench()
    first = only(bench.join()).member_id
    bench.sync(first, 1, {})
    told = only(bench.join(needs_id=True)).member_id
    again = bench.join(first)
    assert not again
    bench.timers.fire(SESSION_MS)
    assert only(again).generation_id == 2
    assert only(bench.join(told)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_was_replaced_is_not_waited_for():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    first, second = bench.join(instance="a"), bench.join(instance="b", session_timeout_ms=100_000)
    bench.timers.fire(100)
    bench.timers.fire(200)
    leader = only(first).member_id
    bench.sync(leader, 1, {}, now=200, instance_id="a")
    back = only(bench.join(instance="b", now=300, session_timeout_ms=100_000)).member_id
    for now in range(0, REBALANCE_MS + 1_000, 1_000):
        bench.heartbeat(leader, 1, now, "a")
        bench.timers.fire(now)
    assert set(bench.group.members) == {leader, back}
    assert bench.group.state is GroupState.STABLE
    assert len(second) == 1
