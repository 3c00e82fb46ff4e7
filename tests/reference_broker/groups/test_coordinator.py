"""Groups behave as Kafka's classic groups do: joining, rebalancing, sessions, static members, every error.

Method: the coordinator is called directly with explicit times; answers are collected in lists; nothing sleeps.
"""

from __future__ import annotations

from itertools import count

import pytest

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.group import GroupState
from kafkawire.reference_broker.groups.requests import GroupLimits, Join, Sync
from kafkawire.reference_broker.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Store:
    """Remembers how often groups were written."""

    def __init__(self) -> None:
        self.stored = 0
        self.removed = []
        self.error: ErrorCode | None = None

    def store_group(self, group, now_ms) -> None:
        if self.error is not None:
            raise BrokerError(self.error)
        self.stored += 1

    def remove_group(self, group_id, now_ms) -> None:
        self.removed.append(group_id)


class Bench:
    """A coordinator, and short ways to call it."""

    def __init__(self, **limits) -> None:
        self.timers = Timers()
        self.store = Store()
        numbers = count(1)
        self.groups = GroupCoordinator(self.timers, self.store, lambda: f"id{next(numbers)}", GroupLimits(**limits))

    @property
    def group(self):
        return self.groups.groups["g"]

    def join(self, member_id="", now=0, *, instance=None, protocols=("range",), needs_id=False, skip=True, **changes):
        answers = []
        fields = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": instance,
            "protocol_type": "consumer",
            "protocols": tuple((name, name.encode()) for name in protocols),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": "c",
            "client_host": "/h",
            "needs_member_id": needs_id,
            "may_skip_assignment": skip,
        }
        self.groups.join(Join(**(fields | changes)), answers.append, now)
        return answers

    def sync(self, member_id, generation, assignments=None, now=0, **changes):
        answers = []
        fields = {"instance_id": None, "protocol_type": None, "protocol_name": None} | changes
        self.groups.sync(Sync("g", generation, member_id, assignments=assignments or {}, **fields), answers.append, now)
        return answers

    def heartbeat(self, member_id, generation, now=0, instance=None):
        try:
            self.groups.heartbeat("g", generation, member_id, instance, now)
        except BrokerError as error:
            return error.code
        return ErrorCode.NONE

    def leave(self, member_id, now=0, instance=None):
        try:
            self.groups.leave("g", member_id, instance, now)
        except BrokerError as error:
            return error.code
        return ErrorCode.NONE


def only(answers):
    (answer,) = answers
    return answer


def end_initial_delay(bench):
    """Let the initial delay pass, twice since more than one member came."""
    bench.timers.fire(100)
    bench.timers.fire(200)


def form(bench, *protocols_of_members):
    """Let members join an empty group together (the initial delay holds it open); return their answers."""
    joined = [bench.join(protocols=protocols) for protocols in protocols_of_members]
    end_initial_delay(bench)
    return [only(answers) for answers in joined]


def test_single_member_joins_at_once_and_leads():
    bench = Bench()
    answer = only(bench.join())
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, answer.member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [(member.member_id, member.metadata) for member in answer.members] == [(answer.member_id, b"range")]
    assert bench.group.state is GroupState.COMPLETING_REBALANCE


def test_new_member_has_to_come_back_with_its_id():
    bench = Bench()
    told = only(bench.join(needs_id=True))
    assert (told.error_code, told.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-id1")
    assert not bench.group.members
    answer = only(bench.join(told.member_id, needs_id=True))
    assert (answer.error_code, answer.member_id) == (ErrorCode.NONE, "c-id1")


def test_id_that_is_not_used_expires():
    bench = Bench()
    told = only(bench.join(needs_id=True))
    bench.timers.fire(SESSION_MS)
    assert only(bench.join(told.member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_refused_joins_leave_no_group(changes, code):
    bench = Bench()
    assert only(bench.join(**changes)).error_code == code
    assert not bench.groups.groups


@pytest.mark.parametrize("changes", [{"protocol_type": "connect"}, {"protocols": ("other",)}])
def test_second_member_has_to_share_type_and_a_protocol(changes):
    bench = Bench()
    bench.join()
    assert only(bench.join(**changes)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_full_group_takes_no_new_member():
    bench = Bench(group_max_size=1)
    bench.join()
    assert only(bench.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_initial_delay_gathers_members():
    bench = Bench(group_initial_rebalance_delay_ms=3_000)
    first = bench.join(now=0)
    assert not first
    second = bench.join(now=2_000)
    bench.timers.fire(3_000)
    assert not first, "a member came meanwhile: the delay begins again"
    bench.timers.fire(6_000)
    assert only(first).generation_id == only(second).generation_id == 1
    assert len(only(first).members) == 2
    assert not only(second).members, "only the leader learns the members"


def test_most_wanted_common_protocol_is_selected():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    answers = form(bench, ("a", "b"), ("b", "a"), ("b", "c", "a"))
    assert {answer.protocol_name for answer in answers} == {"b"}


def test_second_member_makes_the_first_join_again():
    bench = Bench()
    first = only(bench.join())
    bench.sync(first.member_id, 1, {first.member_id: b"all"})
    second = bench.join()
    assert not second
    assert bench.heartbeat(first.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = only(bench.join(first.member_id))
    assert again.generation_id == only(second).generation_id == 2
    assert {member.member_id for member in again.members} == {first.member_id, only(second).member_id}


def test_member_that_does_not_join_again_is_out_after_the_rebalance_timeout():
    bench = Bench()
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
    bench = Bench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    waiting = bench.sync(other.member_id, 1)
    assert not waiting
    own = bench.sync(leader.member_id, 1, {leader.member_id: b"L", other.member_id: b"O"})
    assert (only(own).assignment, only(waiting).assignment) == (b"L", b"O")
    assert (only(own).protocol_type, only(own).protocol_name) == ("consumer", "range")
    assert bench.group.state is GroupState.STABLE
    assert bench.store.stored == 1
    assert only(bench.sync(other.member_id, 1)).assignment == b"O", "a stable group answers at once"


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
    bench = Bench()
    known = only(bench.join()).member_id
    assert only(bench.sync(member or known, generation, **changes)).error_code == code


def test_sync_of_an_unknown_group():
    assert only(Bench().sync("m", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_new_rebalance_ends_waiting_syncs():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    waiting = bench.sync(other.member_id, 1)
    bench.join(now=200)
    assert only(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert only(bench.sync(leader.member_id, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_member_without_sync_is_out_after_the_rebalance_timeout():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    bench.sync(leader.member_id, 1, {})
    for now in range(SESSION_MS // 2, REBALANCE_MS + 200, SESSION_MS // 2):
        for member in (leader, other):
            bench.heartbeat(member.member_id, 1, now)
        bench.timers.fire(now)
    bench.timers.fire(REBALANCE_MS + 200)
    assert list(bench.group.members) == [leader.member_id]
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_store_failure_is_told_to_everybody_and_the_group_tries_again():
    bench = Bench()
    member = only(bench.join()).member_id
    bench.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert only(bench.sync(member, 1, {member: b"x"})).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_silent_member_is_out_after_its_session():
    bench = Bench()
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
    bench = Bench()
    first = only(bench.join()).member_id
    bench.sync(first, 1, {})
    second = bench.join(now=0)
    for now in range(0, REBALANCE_MS - 1, SESSION_MS // 2):
        bench.heartbeat(first, 1, now)
        bench.timers.fire(now)
    assert len(bench.group.members) == 2
    bench.join(first, now=REBALANCE_MS - 1)
    assert only(second).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("generation", "member", "code"),
    [(1, None, ErrorCode.NONE), (0, None, ErrorCode.ILLEGAL_GENERATION), (1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_heartbeats(generation, member, code):
    bench = Bench()
    known = only(bench.join()).member_id
    assert bench.heartbeat(member or known, generation) == code


def test_last_member_leaves_an_empty_group_behind():
    bench = Bench()
    member = only(bench.join()).member_id
    assert bench.leave("nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave(member) == ErrorCode.NONE
    assert (bench.group.state, bench.group.generation_id) == (GroupState.EMPTY, 2)
    assert only(bench.join()).generation_id == 3


def test_leader_leaves_and_the_next_one_leads():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    bench.leave(leader.member_id, now=200)
    again = only(bench.join(other.member_id, now=200))
    assert (again.leader, again.generation_id) == (other.member_id, 2)


def test_leave_ends_the_members_own_join():
    bench = Bench()
    first = only(bench.join()).member_id
    second = bench.join()
    waiting_id = next(member for member in bench.group.members if member != first)
    bench.leave(waiting_id)
    assert only(second).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_follower_that_joins_again_unchanged_gets_the_current_generation():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    leader, other = form(bench, ("range",), ("range",))
    bench.sync(leader.member_id, 1, {})
    assert only(bench.join(other.member_id, now=200)).generation_id == 1
    assert not bench.join(leader.member_id, now=200), "the leader may force a rebalance"


def test_static_member_comes_back_under_a_new_id_without_a_rebalance():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    first, second = bench.join(instance="a"), bench.join(instance="b")
    end_initial_delay(bench)
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
    bench = Bench()
    old = only(bench.join(instance="a")).member_id
    bench.sync(old, 1, {old: b"L"}, instance_id="a")
    back = only(bench.join(instance="a", skip=skip))
    if skip:
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 1)
    else:
        assert (back.leader, back.skip_assignment, len(back.members)) == (old, False, 0)


def test_static_member_with_other_protocols_starts_a_rebalance():
    bench = Bench()
    old = only(bench.join(instance="a", protocols=("range", "sticky"))).member_id
    bench.sync(old, 1, {}, instance_id="a")
    back = only(bench.join(instance="a", protocols=("sticky",)))
    assert (back.generation_id, back.protocol_name) == (2, "sticky")


def test_static_member_keeps_its_place_until_its_session_ends():
    bench = Bench(group_initial_rebalance_delay_ms=100)
    first, second = bench.join(instance="a"), bench.join(instance="b", session_timeout_ms=100_000)
    end_initial_delay(bench)
    kept, other = only(first).member_id, only(second).member_id
    bench.sync(kept, 1, {}, now=200, instance_id="a")
    bench.sync(other, 1, now=200, instance_id="b")
    third = bench.join(instance="c", now=200)
    bench.join(other, instance="b", now=200)
    bench.timers.fire(200 + SESSION_MS)
    assert only(third).generation_id == 2, "the silent member's session ended, so that all others have joined"
    assert "a" not in bench.group.static_members


def test_static_member_is_removed_by_its_instance_id():
    bench = Bench()
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
        (1, True, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_into_a_stable_group(generation, member, instance, code):
    bench = Bench()
    known = only(bench.join()).member_id
    bench.sync(known, 1, {})
    member_id = known if member else ""
    if code == ErrorCode.NONE:
        bench.groups.check_commit("g", generation, member_id, instance, 0)
    else:
        with pytest.raises(BrokerError) as caught:
            bench.groups.check_commit("g", generation, member_id, instance, 0)
        assert caught.value.code == code


def test_commits_without_members():
    bench = Bench()
    bench.groups.check_commit("g", -1, "", None, 0)
    with pytest.raises(BrokerError) as caught:
        bench.groups.check_commit("g", 3, "m", None, 0)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.groups.group_for_commit("g", 5) is bench.group
    bench.groups.check_commit("g", -1, "", None, 0)


def test_commit_during_the_assignment_has_to_wait():
    bench = Bench()
    member = only(bench.join()).member_id
    with pytest.raises(BrokerError) as caught:
        bench.groups.check_commit("g", 1, member, None, 0)
    assert caught.value.code == ErrorCode.REBALANCE_IN_PROGRESS


def test_only_empty_groups_are_deleted():
    bench = Bench()
    with pytest.raises(BrokerError) as caught:
        bench.groups.delete("g", 0)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    member = only(bench.join()).member_id
    with pytest.raises(BrokerError) as caught:
        bench.groups.delete("g", 0)
    assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    bench.leave(member)
    bench.groups.delete("g", 0)
    assert not bench.groups.groups
    assert bench.store.removed == ["g"]


def test_restored_members_have_a_session_to_be_heard_again():
    before = Bench()
    member = only(before.join()).member_id
    before.sync(member, 1, {member: b"x"})
    after = Bench()
    before.group.members[member].session_timer = None
    after.groups.restore([before.group], 50_000)
    after.timers.fire(50_000 + SESSION_MS - 1)
    assert after.heartbeat(member, 1, 50_000 + SESSION_MS - 1) == ErrorCode.NONE
    after.timers.fire(50_000 + 2 * SESSION_MS)
    assert after.group.state is GroupState.EMPTY
