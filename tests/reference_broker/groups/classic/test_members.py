"""Members of classic groups get Kafka's answers to joins, syncs, heartbeats, commits and leaves, including every error.

Method: proceed as in `test_rebalances.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS
from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import REBALANCE_MS, SESSION_MS, GroupBench, form, only


def test_single_member_joins_at_once_and_leads():
    bench = GroupBench()
    answer = only(bench.join())
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, answer.member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [(member.member_id, member.metadata) for member in answer.members] == [(answer.member_id, b"range")]
    assert bench.group.state is GroupState.COMPLETING_REBALANCE


def test_new_member_has_to_come_back_with_its_id():
    bench = GroupBench()
    told = only(bench.join(needs_id=True))
    assert (told.error_code, told.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-id1")
    assert not bench.group.members
    answer = only(bench.join(told.member_id, needs_id=True))
    assert (answer.error_code, answer.member_id) == (ErrorCode.NONE, "c-id1")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"client_id": "c" * 32_764}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_joins_leave_no_group(changes, code):
    bench = GroupBench()
    assert only(bench.join(**changes)).error_code == code
    assert not list(bench.groups.classic_groups())


@pytest.mark.parametrize("timeout_ms", [1_000, 1_800_000])
def test_the_shortest_and_the_longest_session_are_allowed(timeout_ms):
    bench = GroupBench()
    member_id = only(bench.join(session_timeout_ms=timeout_ms)).member_id
    assert bench.group.members[member_id].session_timeout_ms == timeout_ms


@pytest.mark.parametrize("needs_id", [True, False])
def test_a_join_whose_group_cannot_be_written_leaves_no_group(needs_id):
    bench = GroupBench()
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert only(bench.join(needs_id=needs_id)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not list(bench.groups.classic_groups())


def test_of_two_joins_that_make_a_group_the_second_outlives_the_first():
    bench = GroupBench()
    bench.log.held = []
    first, second = bench.join(), bench.join()
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.log.release()
    bench.log.error = None
    assert (only(first).error_code, second) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    bench.log.release()
    assert set(bench.group.members) == {only(second).member_id}


def test_a_join_that_is_not_committed_in_time_leaves_the_group_to_others():
    bench = GroupBench()
    bench.log.is_committed = False
    first, second = bench.join(), bench.join()
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    assert only(first).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(bench.group.members) == {only(second).member_id}


def test_longest_client_id_makes_a_member_id():
    assert len(only(GroupBench().join(client_id="c" * 32_763)).member_id) == 32_767


@pytest.mark.parametrize("changes", [{"protocol_type": "connect"}, {"protocols": ("other",)}])
def test_second_member_has_to_share_type_and_a_protocol(changes):
    bench = GroupBench()
    bench.join()
    assert only(bench.join(**changes)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_full_group_takes_no_new_member():
    bench = GroupBench(group_max_size=1)
    bench.join()
    assert only(bench.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("generation", "member", "changes", "code"),
    [
        (1, "nobody", {}, ErrorCode.UNKNOWN_MEMBER_ID),
        (2, None, {}, ErrorCode.ILLEGAL_GENERATION),
        (1, None, {"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (1, None, {"protocol_type": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (1, None, {"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_refused_syncs(generation, member, changes, code):
    bench = GroupBench()
    known = only(bench.join()).member_id
    assert only(bench.sync(member or known, generation, **changes)).error_code == code


def test_sync_of_an_unknown_group():
    assert only(GroupBench().sync("m", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("generation", "member", "code"),
    [(1, None, ErrorCode.NONE), (0, None, ErrorCode.ILLEGAL_GENERATION), (1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_heartbeats(generation, member, code):
    bench = GroupBench()
    known = only(bench.join()).member_id
    assert bench.heartbeat(member or known, generation) == code


def test_leave_ends_the_members_own_join():
    bench = GroupBench()
    first = only(bench.join()).member_id
    second = bench.join()
    waiting_id = next(member for member in bench.group.members if member != first)
    bench.leave(waiting_id)
    assert only(second).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_follower_that_joins_again_unchanged_gets_the_current_generation():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    bench.sync(leader.member_id, 1, {})
    assert only(bench.join(other.member_id, now=200)).generation_id == 1
    assert not bench.join(leader.member_id, now=200), "the leader may force a rebalance"


@pytest.mark.parametrize("instance", [None, "a"])
def test_a_member_is_what_it_said_of_itself_last(instance):
    bench = GroupBench()
    first = only(bench.join(instance=instance))
    bench.sync(first.member_id, 1, {first.member_id: b""}, instance_id=instance)
    changed = {
        "session_timeout_ms": SESSION_MS + 1,
        "rebalance_timeout_ms": REBALANCE_MS + 1,
        "client_id": "other",
        "client_host": "/other",
    }
    for member_id in (first.member_id, "") if instance else (first.member_id,):
        again = only(bench.join(member_id, instance=instance, protocols=("range", "other"), **changed))
        (member,) = bench.group.members.values()
        assert member.member_id == again.member_id
        assert {name: getattr(member, name) for name in changed} == changed
        assert member.protocols == (("range", b"range"), ("other", b"other"))
        changed["client_id"] = "a third"


def test_static_member_comes_back_under_a_new_id_without_a_rebalance():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    first, second = bench.join(instance="a"), bench.join(instance="b")
    bench.timers.fire(100)
    bench.timers.fire(200)
    leader, other = only(first).member_id, only(second).member_id
    bench.sync(leader, 1, {leader: b"L", other: b"O"}, instance_id="a")
    back = only(bench.join(instance="b", now=200))
    assert (back.error_code, back.generation_id, back.leader) == (ErrorCode.NONE, 1, leader)
    assert back.member_id not in (leader, other)
    assert bench.group.state is GroupState.STABLE
    assert only(bench.sync(back.member_id, 1, instance_id="b")).assignment == b"O"
    assert bench.heartbeat(other, 1, now=200, instance="b") == ErrorCode.FENCED_INSTANCE_ID
    assert only(bench.join(other, instance="b", now=200)).error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("skip", [True, False])
def test_static_leader_that_comes_back_must_not_assign(skip):
    bench = GroupBench()
    old = only(bench.join(instance="a")).member_id
    bench.sync(old, 1, {old: b"L"}, instance_id="a")
    back = only(bench.join(instance="a", skip=skip))
    if skip:
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 1)
    else:
        assert (back.leader, back.skip_assignment, len(back.members)) == (old, False, 0)


def test_static_member_with_other_protocols_starts_a_rebalance():
    bench = GroupBench()
    old = only(bench.join(instance="a", protocols=("range", "sticky"))).member_id
    bench.sync(old, 1, {}, instance_id="a")
    back = only(bench.join(instance="a", protocols=("sticky",)))
    assert (back.generation_id, back.protocol_name) == (2, "sticky")


def test_static_member_that_starts_a_rebalance_waits_for_the_others_and_for_no_record():
    bench, both = GroupBench(), ("range", "sticky")
    old = only(bench.join(instance="a", protocols=both)).member_id
    other = bench.join(protocols=both)
    leader = only(bench.join(old, instance="a", protocols=both))
    bench.sync(old, leader.generation_id, {}, instance_id="a")
    bench.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    back = bench.join(instance="a", protocols=("sticky",))
    assert (back, bench.group.state) == ([], GroupState.PREPARING_REBALANCE)
    bench.log.error = None
    bench.join(only(other).member_id, protocols=both)
    assert (only(back).error_code, only(back).protocol_name) == (ErrorCode.NONE, "sticky")


def test_static_member_is_removed_by_its_instance_id():
    bench = GroupBench()
    member = only(bench.join(instance="a")).member_id
    assert bench.leave("", instance="b") == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave("other", instance="a") == ErrorCode.FENCED_INSTANCE_ID
    assert bench.leave("", instance="a") == ErrorCode.NONE
    assert member not in bench.group.members


@pytest.mark.parametrize(
    ("generation", "member", "instance", "code"),
    [
        (1, True, None, ErrorCode.NONE),
        (0, True, None, ErrorCode.ILLEGAL_GENERATION),
        (1, False, None, ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, False, None, ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, True, None, ErrorCode.ILLEGAL_GENERATION),
        (1, True, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, False, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_into_a_stable_group(generation, member, instance, code):
    bench = GroupBench()
    known = only(bench.join()).member_id
    bench.sync(known, 1, {})
    assert bench.commit(1, generation, known if member else "", instance) == [code]


def test_commits_without_members():
    bench = GroupBench()
    for generation in (0, 3):
        assert bench.commit(generation=generation, member_id="m") == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert bench.commit() == [ErrorCode.NONE]
    assert bench.group.protocol_type is None
    assert bench.commit(2) == [ErrorCode.NONE]
    for generation in (0, 3):
        assert bench.commit(generation=generation, member_id="m") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert [entry.offset for entry in bench.groups.offsets("g").values()] == [2]


def test_commit_during_the_assignment_has_to_wait():
    bench = GroupBench()
    member = only(bench.join()).member_id
    assert bench.commit(1, 1, member) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert bench.commit_in_transaction(1, member) == [ErrorCode.NONE], (
        "a transaction does not have to specify the member"
    )


@pytest.mark.parametrize(
    ("generation", "member", "instance", "no_group", "no_members", "stable"),
    [
        (-1, "", None, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE),
        (-1, "m", None, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "known", None, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION),
        (-1, "", "i", ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID),
        (0, "", None, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (0, "known", None, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION),
        (1, "known", None, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE),
        (1, "known", "i", ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (2, "known", None, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_commits_in_a_transaction(generation, member, instance, no_group, no_members, stable):
    bench = GroupBench()
    known = "c-id1"  # the first member id that the bench assigns

    def commit():
        return only(bench.commit_in_transaction(generation, known if member == "known" else member, instance))

    assert commit() == no_group
    bench = GroupBench()
    assert only(bench.join()).member_id == known
    bench.sync(known, 1, {})
    assert commit() == stable
    bench.leave(known)
    assert commit() == no_members


def test_only_empty_groups_are_deleted():
    bench = GroupBench()
    assert bench.delete() == [ErrorCode.GROUP_ID_NOT_FOUND]
    member = only(bench.join()).member_id
    assert bench.delete() == [ErrorCode.NON_EMPTY_GROUP]
    bench.leave(member)
    assert bench.delete() == [ErrorCode.NONE]
    assert not list(bench.groups.classic_groups())
    assert not list(bench.loaded().groups.classic_groups())


def test_large_subscription_is_refused():
    answer = only(GroupBench().join(protocols=(("range", bytes(1024 * 1024)), ("other", b"x"))))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_group_that_is_joining_takes_the_first_who_come():
    bench = GroupBench(group_max_size=2, group_initial_rebalance_delay_ms=100)
    first, second, third = (only(bench.join(needs_id=True)).member_id for _ in range(3))
    bench.join(first)
    bench.join(second)
    assert only(bench.join(third)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert only(bench.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (set(bench.group.members), bench.group.pending_members) == ({first, second}, {})
    assert not bench.join(first), "a member that is already waiting may join again"


def test_group_over_its_size_shrinks_when_it_is_loaded():
    before = GroupBench(group_initial_rebalance_delay_ms=100)
    members = [answer.member_id for answer in form(before, ("range",), ("range",))]
    before.sync(members[0], 1, {})
    large_enough = GroupBench(before.log, group_max_size=2)
    while large_enough.groups.is_loading:
        large_enough.timers.fire(0)
    assert large_enough.heartbeat(members[0], 1) == ErrorCode.NONE
    after = GroupBench(before.log, group_max_size=1)
    while after.groups.is_loading:
        after.timers.fire(0)
    assert after.heartbeat(members[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    kept = after.join(members[0])
    assert only(after.join(members[1])).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert only(kept).generation_id == 2


def test_second_join_of_a_member_fails_the_first():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    member = only(bench.join(needs_id=True)).member_id
    first = bench.join(member)
    second = bench.join(member)
    assert only(first).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    bench.timers.fire(100)
    assert only(second).generation_id == 1


def test_second_sync_of_a_member_fails_the_first():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    first = bench.sync(other.member_id, 1)
    second = bench.sync(other.member_id, 1)
    assert only(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.sync(leader.member_id, 1, {other.member_id: b"O"})
    assert only(second).assignment == b"O"


def test_several_members_leave_together():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    leader, second, third = (answer.member_id for answer in form(bench, *[("range",)] * 3))
    bench.sync(leader, 1, {})
    waiting = bench.join(now=200)
    bench.join(third, now=200)
    answers = []
    bench.groups.leave("g", [(leader, None), ("nobody", None), (second, None)], answers.append, 300)
    assert answers == [[ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]]
    assert only(waiting).generation_id == 2, "one rebalance for all members that left"


def test_id_handed_out_can_leave():
    bench = GroupBench()
    told = only(bench.join(needs_id=True))
    assert bench.leave(told.member_id) == ErrorCode.NONE
    assert bench.leave(told.member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.loaded().group.state is GroupState.EMPTY, (
        "as in Kafka, a group is written before any member has joined"
    )
    bench.timers.fire(600_000)
    assert not list(bench.groups.classic_groups())
    assert not list(bench.loaded().groups.classic_groups())


def test_instance_id_with_an_id_handed_out_is_unknown():
    bench = GroupBench()
    told = only(bench.join(needs_id=True))
    assert only(bench.join(told.member_id, instance="i")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_counts_once_its_id_is_committed():
    bench = GroupBench()
    old = only(bench.join(instance="a")).member_id
    bench.sync(old, 1, {old: b"L"}, instance_id="a")
    bench.log.is_committed = False
    back = bench.join(instance="a")
    assert not back
    bench.log.commit(bench.log.next_offset)
    assert only(back).generation_id == 1
    assert only(bench.loaded().sync(only(back).member_id, 1, instance_id="a")).assignment == b"L"


def test_static_member_keeps_its_id_if_the_new_one_cannot_be_written():
    bench = GroupBench()
    old = only(bench.join(instance="a")).member_id
    bench.sync(old, 1, {old: b"L"}, instance_id="a")
    bench.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    back = only(bench.join(instance="a", session_timeout_ms=20_000))
    assert (back.error_code, back.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert bench.heartbeat(old, 1, instance="a") == ErrorCode.NONE
    assert (bench.group.leader_id, bench.group.members[old].session_timeout_ms) == (old, SESSION_MS)


def test_static_member_that_comes_back_while_a_rebalance_begins_joins_it():
    bench = GroupBench()
    old = only(bench.join(instance="a")).member_id
    bench.sync(old, 1, {old: b"L"}, instance_id="a")
    bench.log.is_committed = False
    back = bench.join(instance="a")
    second = bench.join()
    bench.log.commit(bench.log.next_offset)
    assert only(back).generation_id == only(second).generation_id == 2


def test_static_member_fences_the_one_that_waits():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    first, second = bench.join(instance="a"), bench.join(instance="b")
    again = bench.join(instance="a")
    assert only(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    bench.timers.fire(100)
    bench.timers.fire(200)
    other, leader = only(second).member_id, only(again).member_id
    waiting = bench.sync(other, 1, instance_id="b")
    third = bench.join(instance="b")
    assert only(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    bench.join(leader, instance="a")
    assert only(third).generation_id == 2


def test_unloading_answers_what_waits_in_groups():
    bench = GroupBench(group_initial_rebalance_delay_ms=100)
    _, other = form(bench, ("range",), ("range",))
    syncing = bench.sync(other.member_id, 1)
    joining = bench.join(group_id="h")
    bench.groups.unload()
    assert only(syncing).error_code == only(joining).error_code == ErrorCode.NOT_COORDINATOR
    bench.timers.fire(10**9)
    assert (len(syncing), len(joining)) == (1, 1)
