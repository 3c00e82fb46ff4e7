"""Groups with members switch between the classic protocol and KIP-848, and the log reflects the switch.

Method: use a coordinator with an in-memory log; a second one reads the log.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS
from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.consumer_bench import ConsumerBench, T, assignment, numbers, parts_of, subscription
from tests.reference_broker.groups.group_bench import REBALANCE_MS, SESSION_MS, only


def test_a_classic_group_becomes_a_consumer_group():
    bench = ConsumerBench()
    first, second = bench.classic_group((0, 1), (2, 3))
    assert bench.group.generation_id == 2
    assert bench.beat("new").member_epoch == 3
    assert list(bench.groups.classic_groups()) == []
    members = bench.consumers.members
    assert members[first].assigned == {T: frozenset({0, 1})}
    assert (members[first].epoch, members[first].previous_epoch, members[second].topics) == (2, 2, ("t",))
    classic = members[second].classic
    assert classic is not None
    assert classic.session_timeout_ms == SESSION_MS
    again = bench.loaded()
    assert list(again.groups.classic_groups()) == []
    assert (again.consumers.members, again.consumers.target) == (members, bench.consumers.target)


def test_members_that_wait_are_told_to_rejoin():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    waits = bench.join_classic()
    assert waits == []
    bench.beat("new")
    assert only(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.timers.fire(REBALANCE_MS - 1)
    assert bench.heartbeat(first, 1, REBALANCE_MS) is ErrorCode.UNKNOWN_MEMBER_ID, "the member's session had ended"


def test_members_that_wait_for_the_leader_are_told_to_rejoin():
    bench = ConsumerBench(group_initial_rebalance_delay_ms=100)
    joined = [bench.join_classic(), bench.join_classic()]
    bench.timers.fire(100)
    bench.timers.fire(200)
    follower = next(answer for (answer,) in joined if answer.member_id != answer.leader)
    waits = bench.sync(follower.member_id, 1)
    bench.beat("new", now=200)
    assert only(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_joins_for_the_first_time_becomes_a_consumer_group():
    bench = ConsumerBench(group_initial_rebalance_delay_ms=100)
    waits = bench.join_classic()
    assert bench.beat("new").member_epoch == 1
    assert only(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_partition_that_was_assigned_twice_has_one_owner():
    bench = ConsumerBench()
    first, second = bench.classic_group((0, 1), (1, 2))
    bench.beat("new")
    members = bench.consumers.members
    assert (members[first].assigned, members[second].assigned) == ({T: frozenset({0, 1})}, {T: frozenset({2})})


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("upgrade", None),
        ("bidirectional", None),
        ("downgrade", ErrorCode.GROUP_ID_NOT_FOUND),
        ("disabled", ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_policies_of_upgrades(policy, code):
    bench = ConsumerBench(group_consumer_migration_policy=policy)
    bench.classic_group((0, 1, 2, 3))
    answer = bench.beat("new")
    assert answer == code or answer.member_epoch == 2
    assert len(list(bench.groups.classic_groups())) == (code is not None)


def test_groups_that_cannot_be_consumer_groups_stay_as_they_are():
    bench = ConsumerBench()
    joined = only(bench.join(protocol_type="connect"))
    assert bench.beat("new") == ErrorCode.GROUP_ID_NOT_FOUND
    assert set(bench.group.members) == {joined.member_id}
    full = ConsumerBench(group_consumer_max_size=1)
    full.classic_group((0, 1), (2, 3))
    assert full.beat("new") == ErrorCode.GROUP_ID_NOT_FOUND
    odd = ConsumerBench()
    only(odd.join())
    assert odd.beat("new") == ErrorCode.GROUP_ID_NOT_FOUND, "the member's metadata cannot be read"
    assert odd.group.state is GroupState.COMPLETING_REBALANCE


def test_what_an_assignor_of_its_own_has_noted_would_be_lost():
    bench = ConsumerBench()
    joined = only(bench.join_classic())
    bench.sync(joined.member_id, 1, {joined.member_id: assignment({"t": (0,)}, b"noted")})
    assert bench.beat("new") == ErrorCode.GROUP_ID_NOT_FOUND


def test_what_cannot_be_written_leaves_the_group_as_it_is():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    waits = bench.join_classic()
    bench.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert bench.beat("new") == ErrorCode.NOT_COORDINATOR
    bench.log.error = None
    assert waits == []
    assert only(bench.join_classic(first)).error_code == ErrorCode.NONE
    assert only(waits).error_code == ErrorCode.NONE
    assert list(bench.groups.consumer_groups()) == []


def test_a_request_that_is_refused_leaves_the_group_as_it_is():
    bench = ConsumerBench(group_consumer_max_size=1)
    (first,) = bench.classic_group((0, 1, 2, 3))
    assert bench.beat("new") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.heartbeat(first, 1) is ErrorCode.NONE
    written = bench.log.next_offset
    bench.beat("new", 7)
    assert bench.log.next_offset == written


def test_the_last_member_of_kip_848_leaves_a_classic_group():
    bench = ConsumerBench()
    first, second = bench.classic_group((0, 1), (2, 3))
    bench.beat("new")
    target = dict(bench.consumers.target)
    bench.beat("new", -1)
    assert list(bench.groups.consumer_groups()) == []
    group = bench.group
    assert (group.state, group.generation_id, group.protocol_name) == (
        GroupState.PREPARING_REBALANCE,
        3,
        "cooperative-sticky",
    )
    assert parts_of(group.members[first].assignment) == {"t": sorted(target[first][T])}
    assert bench.heartbeat(second, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.loaded()
    assert list(again.groups.consumer_groups()) == []
    assert (again.group.generation_id, again.group.leader_id) == (3, group.leader_id)
    assert {name: member.assignment for name, member in again.group.members.items()} == {
        name: member.assignment for name, member in group.members.items()
    }
    joined = [bench.join_classic(first), bench.join_classic(second)]
    assert {only(answers).generation_id for answers in joined} == {4}


def test_a_fenced_member_leaves_a_classic_group():
    bench = ConsumerBench(group_consumer_session_timeout_ms=5_000)
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.timers.fire(5_000)
    assert set(bench.group.members) == {first}
    bench.timers.fire(REBALANCE_MS + 5_000)
    assert bench.group.state is GroupState.EMPTY, "no member has rejoined"


def test_members_of_a_group_that_became_classic_have_a_session_to_be_heard():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new", now=1_000)
    bench.beat("new", -1, now=2_000)
    bench.timers.fire(2_000 + SESSION_MS - 1)
    assert set(bench.group.members) == {first}
    bench.timers.fire(2_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


def test_a_group_that_was_of_both_kinds_leaves_nothing_when_it_is_deleted():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.leave(first)
    bench.beat("new", -1)
    assert bench.delete() == [ErrorCode.NONE]
    assert list(bench.loaded().groups.classic_groups()) == []


def test_an_empty_classic_group_that_became_a_consumer_group_leaves_nothing_when_it_is_deleted():
    bench = ConsumerBench()
    bench.leave(only(bench.join_classic()).member_id)
    bench.beat("new")
    bench.beat("new", -1)
    assert bench.delete() == [ErrorCode.NONE]
    assert list(bench.loaded().groups.classic_groups()) == []


def test_downgrading_that_cannot_be_written_is_tried_again():
    bench = ConsumerBench(group_consumer_session_timeout_ms=5_000)
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.timers.fire(5_000)
    assert set(bench.consumers.members) == {first, "new"}
    bench.log.error = None
    bench.timers.fire(5_500)
    assert set(bench.group.members) == {first}


def test_downgrading_that_is_written_late_gives_members_a_session():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new", now=1_000)
    bench.log.held = []
    answers: list[object] = []
    bench.beat("new", -1, now=2_000, answers=answers)
    bench.timers.fire(2_000 + COMMIT_TIMEOUT_MS)
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.log.release()
    bench.log.held = None
    assert set(bench.group.members) == {first}
    bench.timers.fire(2_000 + SESSION_MS)
    assert bench.group.state is GroupState.EMPTY


@pytest.mark.parametrize(("policy", "stays"), [("upgrade", True), ("bidirectional", False)])
def test_policies_of_downgrades(policy, stays):
    bench = ConsumerBench(group_consumer_migration_policy=policy)
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.beat("new", -1)
    assert bool(list(bench.groups.consumer_groups())) is stays
    if stays:
        assert bench.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert only(bench.join_classic(first, (0, 1, 2, 3))).generation_id == 3
        assert bench.sync_classic(first, 3) == [0, 1, 2, 3]


def test_a_group_too_large_for_a_classic_one_stays_as_it_is():
    bench = ConsumerBench(group_max_size=1)
    bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.join_classic("late")
    bench.beat("new", -1)
    assert len(bench.consumers.members) == 2


def test_a_static_member_takes_the_place_of_the_last_of_kip_848():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new", instance_id="i")
    kept = only(bench.join_classic(first)).generation_id
    given = numbers(bench.beat("new", 2))
    bench.sync_classic(first, kept)
    back = only(bench.join_classic(instance="i", owned=tuple(given)))
    group = bench.group
    assert (back.error_code, back.generation_id) == (ErrorCode.NONE, 2)
    assert (group.state, group.generation_id) == (GroupState.STABLE, 2)
    assert bench.sync_classic(back.member_id, 2, instance_id="i") == given
    assert bench.heartbeat(first, 2) is ErrorCode.NONE
    assert set(bench.loaded().group.members) == {first, back.member_id}


def test_a_static_member_that_reads_something_else_begins_a_rebalance():
    bench = ConsumerBench()
    (first,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new", instance_id="i")
    back = only(bench.join_classic(instance="i", topics=("u",)))
    assert (back.error_code, back.generation_id) == (ErrorCode.NONE, 0)
    assert bench.group.state is GroupState.PREPARING_REBALANCE
    assert bench.heartbeat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_groups_without_members_change_either_way():
    bench = ConsumerBench()
    bench.commit()
    bench.beat("new")
    bench.beat("new", -1)
    joined = only(bench.join_classic())
    assert joined.generation_id == 1
    bench.leave(joined.member_id)
    assert bench.group.state is GroupState.EMPTY
    assert bench.beat("new", 2) == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.beat("new").member_epoch == 2
    assert len(bench.loaded().groups.offsets("g")) == 1


def test_metadata_of_another_protocol_that_cannot_be_read_does_not_keep_a_group():
    bench = ConsumerBench()
    data = subscription(("t",))
    joined = only(bench.join(protocols=(("range", data),)))
    bench.sync(joined.member_id, 1, {})
    bench.beat("new")
    bench.join(joined.member_id, protocols=(("range", data), ("a", b"")))
    bench.join("late", protocols=(("a", data), ("range", b"\xff")))
    bench.beat("new", -1)
    assert set(bench.group.members) == {joined.member_id, "late"}


def test_a_member_that_reads_nothing_does_not_end_a_rebalance_without_an_assignment():
    bench = ConsumerBench()
    joined = only(bench.join_classic())
    assert bench.beat("new", topics=[]).member_epoch == 2
    assert bench.heartbeat(joined.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert only(bench.join_classic(joined.member_id)).generation_id == 2
    assert bench.sync_classic(joined.member_id, 2) == [0, 1, 2, 3]


@pytest.mark.parametrize("changes", [{"member_id": "odd"}, {"protocols": ()}, {"client_id": "c" * 32_764}])
def test_an_empty_consumer_group_outlives_a_refused_join(changes):
    bench = ConsumerBench()
    bench.beat("m")
    bench.beat("m", -1)
    bench.commit()
    assert only(bench.join(**changes)).error_code != ErrorCode.NONE
    for known in (bench, bench.loaded()):
        assert (known.consumers.members, list(known.groups.classic_groups())) == ({}, [])
        assert ("t", 0) in known.groups.offsets("g")
    assert bench.delete() == [ErrorCode.NONE]
    assert not bench.groups.offsets("g")


@pytest.mark.parametrize("needs_id", [True, False])
def test_a_join_that_cannot_be_written_leaves_the_empty_consumer_group(needs_id):
    bench = ConsumerBench()
    bench.beat("m")
    bench.beat("m", -1)
    bench.log.held = []
    answers = bench.join(needs_id=needs_id)
    assert answers == [], "nothing has been written yet"
    bench.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    bench.log.release()
    assert only(answers).error_code == ErrorCode.NOT_COORDINATOR
    bench.log.held = bench.log.error = None
    assert (list(bench.groups.classic_groups()), bench.consumers.members) == ([], {})
    assert bench.beat("m").error_code == ErrorCode.NONE


def test_a_join_that_is_refused_or_not_committed_in_time_takes_no_other_with_it():
    bench = ConsumerBench()
    bench.beat("m")
    bench.beat("m", -1)
    bench.log.is_committed = False
    bench.commit(answers=[])
    refused = bench.join("odd")
    bench.log.held = []
    joined = bench.join_classic(now=1)
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    bench.log.is_committed = True
    bench.log.release()
    assert only(refused).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert only(joined).error_code == ErrorCode.NONE
    assert set(bench.group.members) == {only(joined).member_id}


def test_a_static_member_that_comes_back_by_kip_848_has_what_it_had():
    bench = ConsumerBench()
    static = only(bench.join_classic(instance_id="i")).member_id
    bench.sync(static, 1, {static: assignment({"t": (0, 1, 2, 3)})}, instance_id="i")
    response = bench.beat("new", instance_id="i")
    assert (response.member_epoch, numbers(response)) == (1, [0, 1, 2, 3])
    assert list(bench.consumers.members) == ["new"]


def test_a_static_member_that_comes_back_before_anything_is_assigned_gets_its_part():
    bench = ConsumerBench()
    bench.join_classic(instance_id="i")
    response = bench.beat("new", instance_id="i")
    assert (response.member_epoch, numbers(response)) == (2, [0, 1, 2, 3])


def test_an_assignment_that_fails_after_the_upgrade_begins_no_rebalance():
    bench = ConsumerBench(group_consumer_session_timeout_ms=10**9)
    joined = only(bench.join_classic(session_timeout_ms=1_000_000))
    bench.log.is_committed = False
    waits = bench.sync(joined.member_id, 1, {joined.member_id: assignment({"t": (0, 1)})})
    bench.beat("new", answers=[])
    assert only(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    bench.log.is_committed = True
    bench.log.commit(bench.log.next_offset)
    written = bench.log.next_offset
    bench.timers.fire(COMMIT_TIMEOUT_MS + REBALANCE_MS)
    assert bench.log.next_offset == written, "the classic group is gone"
