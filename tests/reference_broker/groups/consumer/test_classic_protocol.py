"""Members that use the classic protocol share a consumer group with members that use KIP-848.

Method: use a coordinator with an in-memory log; a second one reads the log.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroupState
from kafkawire.reference_broker.groups.requests import PROTOCOLS_BYTES_MAX
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.consumer_bench import ConsumerBench, assignment, numbers, subscription
from tests.reference_broker.groups.group_bench import REBALANCE_MS, SESSION_MS, only


def mixed(**limits):
    """Return a bench, a classic member with all partitions, and a KIP-848 member that has just joined."""
    bench = ConsumerBench(**limits)
    (classic,) = bench.classic_group((0, 1, 2, 3))
    joined = bench.beat("new")
    assert (joined.member_epoch, numbers(joined)) == (2, [])
    return bench, classic


def hand_over(bench, classic, epoch):
    """Let the classic member revoke partitions as requested, and let both members adopt their target assignments."""
    assert bench.heartbeat(classic, epoch - 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = only(bench.join_classic(classic, (0, 1, 2, 3)))
    assert (first.generation_id, first.leader, first.protocol_name) == (epoch - 1, "", "cooperative-sticky")
    kept = bench.sync_classic(classic, first.generation_id)
    assert len(kept) == 2
    assert bench.heartbeat(classic, epoch - 1) is ErrorCode.REBALANCE_IN_PROGRESS
    second = only(bench.join_classic(classic, tuple(kept)))
    assert second.generation_id == epoch
    assert bench.sync_classic(classic, epoch) == kept
    assert bench.heartbeat(classic, epoch) is ErrorCode.NONE
    return kept


def test_partitions_are_handed_over_from_one_protocol_to_the_other():
    bench, classic = mixed()
    kept = hand_over(bench, classic, 2)
    given = bench.beat("new", 2)
    assert sorted(kept + numbers(given)) == [0, 1, 2, 3]
    assert bench.consumers.state is ConsumerGroupState.STABLE
    again = bench.loaded().consumers
    for name in ("epoch", "members", "target", "owners", "assignment_epoch", "assigned_ms", "static_members"):
        assert getattr(again, name) == getattr(bench.consumers, name), name


def test_an_eager_member_has_revoked_everything_when_it_joins():
    bench, classic = mixed()
    joined = only(bench.join_classic(classic))
    assert joined.generation_id == 2
    assert len(bench.sync_classic(classic, 2)) == 2
    assert len(numbers(bench.beat("new", 2))) == 2


def test_partitions_are_handed_over_to_a_member_of_the_classic_protocol():
    bench, classic = mixed()
    hand_over(bench, classic, 2)
    bench.beat("new", 2)
    bench.topics["t"] = TopicFacts(bench.topics["t"].topic_id, 1)
    assert bench.beat("new", 2, (2, 3)).member_epoch in (2, 3)
    assert bench.heartbeat(classic, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_waiting_member_rejoins_once_its_partitions_are_free():
    bench, classic = mixed()
    hand_over(bench, classic, 2)
    held = tuple(numbers(bench.beat("new", 2)))
    late = only(bench.join_classic("late")).generation_id
    assert late == 3, "any id is accepted"
    assert bench.sync_classic("late", 3) == []
    assert bench.heartbeat("late", 3) is ErrorCode.NONE, "the member's partitions are not free yet"
    told = bench.beat("new", 2, held)
    bench.beat("new", 2, tuple(numbers(told)) if told.assignment else held)
    for name in (classic,):
        owned = tuple(bench.consumers.members[name].assigned.get(bench.topics["t"].topic_id, ()))
        generation = only(bench.join_classic(name, owned)).generation_id
        kept = bench.sync_classic(name, generation)
        only(bench.join_classic(name, tuple(kept)))
    assert bench.heartbeat("late", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert only(bench.join_classic("late")).generation_id == 3
    assert bench.sync_classic("late", 3)


def test_a_member_gets_its_id_first():
    bench, _ = mixed()
    told = only(bench.join_classic(needs_id=True))
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert len(bench.consumers.members) == 2, "the client's id is not stored"
    assert only(bench.join_classic(told.member_id, needs_id=True)).generation_id == 3


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"names": ("odd",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"names": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("cooperative-sticky", b"\0"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("cooperative-sticky", b"\0\0\0\0\0\1"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "i", "member_id": "odd"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": (("range", b"x" * (PROTOCOLS_BYTES_MAX + 1)),)}, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_a_join_that_does_not_fit_is_refused(changes, code):
    bench, _ = mixed()
    assert only(bench.join_classic(**changes)).error_code == code
    assert len(bench.consumers.members) == 2


def test_a_full_group_is_refused():
    bench, classic = mixed(group_consumer_max_size=2)
    assert only(bench.join_classic()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert only(bench.join_classic(classic)).error_code == ErrorCode.NONE


def test_requests_of_others_are_refused():
    bench, classic = mixed()
    assert bench.heartbeat("new", 2) is ErrorCode.UNKNOWN_MEMBER_ID, "the member uses KIP-848"
    assert bench.heartbeat("odd", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(classic, 0) is ErrorCode.ILLEGAL_GENERATION
    assert bench.sync_classic("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.sync_classic(classic, 5) == ErrorCode.ILLEGAL_GENERATION
    assert bench.sync_classic(classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.sync_classic(classic, 1, protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync_classic(classic, 1, protocol_name="odd") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_commits_and_reads_of_offsets():
    bench, classic = mixed()
    assert bench.commit(1, 1, classic) == [ErrorCode.NONE]
    assert bench.commit(1, 2, classic) == [ErrorCode.ILLEGAL_GENERATION]
    assert bench.commit(1, 2, "new") == [ErrorCode.NONE]
    assert bench.commit(1, 1, "new") == [ErrorCode.STALE_MEMBER_EPOCH]


def test_a_silent_member_is_fenced_after_its_own_session():
    bench, _ = mixed()
    bench.timers.fire(SESSION_MS - 1)
    assert len(bench.consumers.members) == 2
    bench.timers.fire(SESSION_MS)
    assert set(bench.consumers.members) == {"new"}


def test_a_member_that_does_not_rejoin_is_fenced():
    bench, classic = mixed()
    for now in range(0, REBALANCE_MS, 5_000):
        bench.timers.fire(now)
        assert bench.heartbeat(classic, 1, now) is ErrorCode.REBALANCE_IN_PROGRESS
        bench.beat("new", 2, now=now)
    bench.timers.fire(REBALANCE_MS)
    assert set(bench.consumers.members) == {"new"}


def test_a_member_that_syncs_has_been_heard():
    bench, classic = mixed()
    bench.join_classic(classic)
    bench.sync_classic(classic, 2, now=SESSION_MS - 1)
    bench.timers.fire(2 * SESSION_MS - 2)
    assert classic in bench.consumers.members
    bench.timers.fire(2 * SESSION_MS - 1)
    assert classic not in bench.consumers.members


def test_a_member_that_does_not_sync_is_fenced():
    bench, classic = mixed()
    bench.join_classic(classic)
    for now in range(0, REBALANCE_MS, 5_000):
        bench.timers.fire(now)
        bench.heartbeat(classic, 2, now)
        bench.beat("new", 2, now=now)
    assert len(bench.consumers.members) == 2
    bench.timers.fire(REBALANCE_MS)
    assert set(bench.consumers.members) == {"new"}


def test_members_of_both_protocols_leave():
    bench, classic = mixed()
    bench.join_classic("late")
    bench.join_classic("later", instance=None)
    answers = []
    bench.groups.leave("g", [("odd", None), (classic, None), (classic, None), ("", "i")], answers.append, 0)
    assert answers == [[ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]]
    assert set(bench.consumers.members) == {"new", "late", "later"}
    assert bench.leave("new") is ErrorCode.NONE, "an administrator may request this"
    assert set(bench.group.members) == {"late", "later"}, "only classic members are left"


def test_a_static_member_changes_its_protocol():
    bench, _ = mixed()
    bench.join_classic("static", instance=None)
    first = only(bench.join_classic(instance="i")).member_id
    as_new = bench.beat("static2", instance_id="i")
    assert as_new.member_epoch == bench.consumers.epoch
    assert bench.consumers.members["static2"].classic is None
    assert first not in bench.consumers.members
    back = only(bench.join_classic(instance="i"))
    assert back.error_code == ErrorCode.NONE
    assert bench.consumers.members[back.member_id].classic is not None
    assert only(bench.join_classic("static2", instance="i")).error_code == ErrorCode.FENCED_INSTANCE_ID
    answers = []
    bench.groups.leave("g", [("", "i")], answers.append, 0)
    assert answers == [[ErrorCode.NONE]]
    assert "i" not in bench.consumers.static_members


def test_what_a_member_leaves_out_when_it_rejoins_stays():
    bench, _ = mixed()

    def join(rack_id, **changes):
        protocols = (("cooperative-sticky", subscription(("t",), rack_id=rack_id)),)
        bench.join_classic("m", protocols=protocols, **changes)
        member = bench.consumers.members["m"]
        assert member.classic is not None
        timeouts_ms = (member.classic.session_timeout_ms, member.rebalance_timeout_ms)
        return member.instance_id, member.rack_id, member.client_id, member.client_host, *timeouts_ms

    bench.join_classic("m")
    first = {"client_id": "c1", "client_host": "/h1", "session_timeout_ms": 7_000, "rebalance_timeout_ms": 8_000}
    assert join("east", **first) == (None, "east", "c1", "/h1", 7_000, 8_000)
    assert join(None, **first | {"rebalance_timeout_ms": -1}) == (None, "east", "c1", "/h1", 7_000, 8_000)
    second = {"client_id": "c2", "client_host": "/h2", "session_timeout_ms": 9_000, "rebalance_timeout_ms": 0}
    assert join("west", **second) == (None, "west", "c2", "/h2", 9_000, 0)


def test_what_a_static_member_leaves_out_when_it_rejoins_stays():
    bench, _ = mixed()
    member_id = only(bench.join_classic(instance="i")).member_id
    bench.join_classic(member_id)
    assert bench.consumers.members[member_id].instance_id == "i"


def test_what_cannot_be_written_changes_nothing():
    bench, classic = mixed()
    before = dict(bench.consumers.members)
    bench.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert only(bench.join_classic("late")).error_code == ErrorCode.NOT_COORDINATOR
    assert only(bench.join_classic(classic)).error_code == ErrorCode.NOT_COORDINATOR
    bench.timers.fire(SESSION_MS)
    bench.log.error = None
    assert bench.consumers.members == before
    bench.timers.fire(SESSION_MS + 500)
    assert set(bench.consumers.members) == {"new"}, "fencing is retried"


def test_subscriptions_are_written_as_members_wrote_them():
    assert subscription(("t",))[:2] == b"\0\3"
    assert assignment({"t": (1,)})[:2] == b"\0\3"


def test_members_of_the_classic_protocol_alone_notice_that_topics_change():
    bench, classic = mixed(group_consumer_migration_policy="upgrade")
    bench.beat("new", -1)
    generation = only(bench.join_classic(classic, (0, 1, 2, 3))).generation_id
    assert bench.sync_classic(classic, generation) == [0, 1, 2, 3]
    assert bench.heartbeat(classic, generation) is ErrorCode.NONE
    bench.topics["t"] = bench.topics["t"]._replace(partitions=5)
    assert bench.heartbeat(classic, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    generation = only(bench.join_classic(classic, (0, 1, 2, 3))).generation_id
    assert bench.sync_classic(classic, generation) == [0, 1, 2, 3, 4]


def test_a_member_that_changes_its_protocol_need_not_rejoin():
    bench, classic = mixed()
    assert bench.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = bench.beat(classic)
    assert sorted(numbers(joined)) == [0, 1]
    for now in range(0, REBALANCE_MS + 10_000, 5_000):
        bench.timers.fire(now)
        assert bench.beat(classic, bench.consumers.members[classic].epoch, (0, 1), now).error_code == ErrorCode.NONE


def test_members_of_the_classic_protocol_alone_rejoin_once_an_assignment_may_be_made():
    bench, classic = mixed(group_consumer_migration_policy="upgrade", group_consumer_assignment_interval_ms=8_000)
    bench.beat("new", 2, now=1_000, topics=["t", "u"])
    generation = only(bench.join_classic(classic, (0, 1, 2, 3), now=1_000)).generation_id
    generation = only(bench.join_classic(classic, (0, 1), now=1_000)).generation_id
    bench.sync_classic(classic, generation, now=1_000)
    bench.beat("new", -1, now=1_000)
    assert bench.consumers.assigned_ms == 1_000
    assert bench.consumers.epoch > bench.consumers.assignment_epoch
    for now in (2_000, 8_999):
        assert bench.heartbeat(classic, generation, now) is ErrorCode.NONE, "there is nothing new yet"
        assert bench.sync_classic(classic, generation, now=now) == [0, 1]
    assert bench.heartbeat(classic, generation, 9_000) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.sync_classic(classic, generation, now=9_000) == ErrorCode.REBALANCE_IN_PROGRESS
    generation = only(bench.join_classic(classic, (0, 1), now=9_000)).generation_id
    assert generation == bench.consumers.epoch
    assert bench.sync_classic(classic, generation, now=9_000) == [0, 1, 2, 3]
    assert bench.heartbeat(classic, generation, 9_000) is ErrorCode.NONE


def test_a_member_whose_join_is_written_late_has_a_session():
    bench = ConsumerBench(group_consumer_session_timeout_ms=10**9)
    bench.beat("m")
    bench.log.is_committed = False
    waits = bench.join_classic("c")
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    assert only(waits).error_code
    bench.log.is_committed = True
    bench.log.commit(bench.log.next_offset)
    assert set(bench.consumers.members) == {"m", "c"}
    bench.timers.fire(SESSION_MS)
    assert set(bench.consumers.members) == {"m"}


@pytest.mark.parametrize("has_joined", [False, True])
def test_a_member_that_goes_while_something_is_expected_of_it_leaves_no_timers(has_joined):
    bench, classic = mixed()
    assert bench.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS, "the member has to join"
    if has_joined:
        bench.join_classic(classic, (0, 1, 2, 3))
    assert bench.leave(classic) is ErrorCode.NONE
    bench.beat("new", -1)
    assert not bench.consumers.members
    assert bench.timers.next_deadline_ms == ConsumerBench().timers.next_deadline_ms
