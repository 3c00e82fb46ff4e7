"""A member of a classic group joins, reads, gives up partitions, is fenced and leaves as Kafka's own consumer does.

Method: run members with a simulated coordinator that is as strict as Kafka's; if a response must come at a certain
moment, the test controls the coordinator.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.groups.classic_group import ClassicGroup
from kafkawire.sdk.groups.classic_protocol import AssignmentProtocol
from kafkawire.sdk.groups.commit_outcome import Committed, Rebalanced
from kafkawire.sdk.groups.consumer_protocol import decode_subscription, encode_assignment
from kafkawire.sdk.groups.protocol import Event, Revoking
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.classic_coordinator import GroupState
from tests.sdk.groups.joining import coordinator, go_on, joining, kinds
from tests.sdk.groups.members import Cluster, Member, refusal
from tests.sdk.simulation import SILENT, Later
from tests.sdk.simulation import cluster as described

EAGER = pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
ALL = pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])


def once(kind: type[Message], answer: Any) -> Any:
    """Return a fault that affects the first request of a class."""
    left = [answer]

    def fault(node: int, request: Message) -> Any:
        return left.pop() if left and isinstance(request, kind) else None

    return fault


@ALL
def test_members_share_the_partitions(assignor: str) -> None:
    cluster = Cluster.of_classic(assignor)
    members = [cluster.member("a")]
    cluster.settle(*members)
    for name in "bc":
        members.append(cluster.member(name))
        cluster.settle(*members)
    left = members.pop(1).stop()
    cluster.until(lambda: left.done)
    cluster.settle(*members)


def test_a_new_member_joins_with_the_id_that_it_is_given() -> None:
    cluster = Cluster.of_classic()
    cluster.settle(cluster.member("a"))
    assert [join.member_id for join in coordinator(cluster).joins] == ["", "member-1"]
    assert coordinator(cluster).joins[0].reason == "first join"


def test_a_subscription_carries_topics_rack_generation_and_what_is_owned() -> None:
    cluster = Cluster.of_classic("cooperative-sticky")
    first = cluster.member("a", rack="r1")
    cluster.settle(first)
    second = cluster.member("b")
    cluster.settle(first, second)
    joins = [join for join in coordinator(cluster).joins if join.member_id == "member-1"]
    said = decode_subscription(bytes(joins[1].protocols[0].metadata))
    assert (said.topics, said.rack_id, said.generation_id) == (("t",), "r1", 1)
    assert len(said.owned_partitions) == 6
    assert "revoked" in (joins[2].reason or "")


def test_eager_members_commit_before_they_tell_and_let_go_before_they_join() -> None:
    cluster = Cluster.of_classic()
    first = cluster.member("a", auto_commit_interval_ms=None)
    cluster.settle(first)
    first.reader.read(3)
    seen: list[tuple[bool, int]] = []
    first.listener.on_event = lambda event, _: seen.append(
        (isinstance(event, Revoking) and not first.reader.handed_out, len(cluster.kafka.commits))
    )
    second = cluster.member("b")
    cluster.settle(first, second)
    assert seen[0] == (True, 6)
    assert {offset.offset for offset in cluster.kafka.offsets.values()} == {3}
    assert decode_subscription(bytes(coordinator(cluster).joins[-1].protocols[0].metadata)).owned_partitions == ()


def test_cooperative_members_go_on_reading_what_they_keep() -> None:
    cluster = Cluster.of_classic("cooperative-sticky")
    first = cluster.member("a")
    cluster.settle(first)
    least = [6]
    cluster.checks.append(lambda: least.append(len(first.reader.handed_out)))
    second = cluster.member("b")
    cluster.settle(first, second)
    assert min(least) == 3
    assert kinds(first) == ["Assigned", "Revoking"]
    assert kinds(second) == ["Assigned"]


@ALL
def test_no_record_is_read_twice_in_a_graceful_rebalance(assignor: str) -> None:
    """The latency is 100 ms, and a record in each partition is finished every 5 ms."""
    cluster = Cluster.of_classic(assignor)
    handled: list[tuple[TopicPartition, int]] = []

    def read() -> None:
        for member in cluster.members:
            handled.extend((each, member.reader.positions[each]) for each in member.reader.handed_out)
            member.reader.read()

    cluster.checks.append(read)
    members = []
    for name in "abc":
        members.append(cluster.member(name))
        members[-1].simulation.latency_ms = 100
        cluster.settle(*members)
    left = members.pop(0).stop()
    cluster.settle(*members)
    assert left.done
    assert len(handled) == len(set(handled)) > 1_000
    for partition in {each for each, _ in handled}:
        offsets = sorted(offset for each, offset in handled if each == partition)
        assert offsets == list(range(len(offsets)))


def test_a_commit_does_not_wait_for_a_join() -> None:
    cluster = Cluster.of_classic("cooperative-sticky")
    first, _, _ = joining(cluster)
    first.reader.read()
    outcomes = first.commit()
    cluster.run(50)
    assert first.state == "joining"
    assert isinstance(outcomes[0], Committed)


def test_a_late_refusal_of_a_former_generation_does_not_touch_the_present_one() -> None:
    cluster = Cluster.of_classic("cooperative-sticky")
    first, second, third = joining(cluster)
    first.reader.read()
    held_up = cluster.fault
    delayed = once(
        OffsetCommitRequest, refusal(OffsetCommitRequest(topics=[_topic(first)]), ErrorCode.ILLEGAL_GENERATION)
    )
    cluster.fault = lambda node, request: held_up(node, request) or delayed(node, request)
    outcomes = first.commit()
    cluster.run(50)
    assert first.state == "joining"
    go_on(cluster, second)
    cluster.settle(first, second, third)
    assert "Lost" not in kinds(first)
    assert isinstance(outcomes[0], Committed | Rebalanced)
    assert first.reader.assigned <= outcomes[0].offsets.keys()


def test_a_late_heartbeat_of_a_former_generation_does_not_touch_the_join() -> None:
    cluster = Cluster.of_classic("cooperative-sticky", topics={"t": 6, "u": 3})
    member = cluster.member("a")
    cluster.settle(member)
    heartbeat = Later()
    cluster.fault = once(HeartbeatRequest, heartbeat)
    cluster.until(lambda: heartbeat.deliver is not None)
    member.group.subscribe(Subscription(["t", "u"]), member.now_ms)
    cluster.until(lambda: member.state == "joining")
    heartbeat.answer(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    cluster.settle(member, count=9)
    assert "Lost" not in kinds(member)


def _topic(member: Member) -> OffsetCommitRequest.OffsetCommitRequestTopic:
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(each.partition, 1) for each in member.reader.assigned
    ]
    return OffsetCommitRequest.OffsetCommitRequestTopic("t", b"t".ljust(16, b"-"), partitions)


@ALL
def test_a_subscription_that_changes_during_a_join_takes_effect(assignor: str) -> None:
    cluster = Cluster.of_classic(assignor, topics={"t": 6, "u": 3})
    first, second, third = joining(cluster)
    first.group.subscribe(Subscription(["t", "u"]), first.now_ms)
    go_on(cluster, second)
    cluster.until(lambda: {each for each in first.reader.handed_out if each.topic == "u"} != set())
    cluster.settle(first, second, third, count=9, share=1)


@ALL
def test_a_subscription_to_the_same_topics_disturbs_nobody(assignor: str) -> None:
    """Otherwise, a listener that subscribes in `on_assigned` would keep its group rebalancing."""
    cluster = Cluster.of_classic(assignor, topics={"t": 6, "u": 3})
    first, second = cluster.member("a", Subscription(["t", "u"])), cluster.member("b", Subscription(["t", "u"]))
    cluster.settle(first, second, count=9)
    joins, told = len(coordinator(cluster).joins), [kinds(first), kinds(second)]
    for subscription in (Subscription(["u", "t"]), Subscription(pattern="[tu]")):
        first.group.subscribe(subscription, first.now_ms)
        cluster.run(10_000)
    assert len(coordinator(cluster).joins) == joins
    assert [kinds(first), kinds(second)] == told
    first.group.subscribe(Subscription(["t"]), first.now_ms)
    cluster.until(lambda: len(coordinator(cluster).joins) > joins)


def test_nothing_is_handed_out_of_topics_that_are_no_longer_subscribed_to() -> None:
    cluster = Cluster.of_classic("cooperative-sticky", topics={"t": 6, "u": 3})
    member = cluster.member("a", Subscription(["t", "u"]))
    cluster.settle(member, count=9)
    member.group.subscribe(Subscription(["u"]), member.now_ms)
    assert {partition.topic for partition in member.reader.handed_out} == {"u"}
    cluster.until(lambda: len(member.reader.assigned) == 3)


def test_a_pattern_finds_new_topics_and_not_kafkas_own() -> None:
    cluster = Cluster.of_classic("range", topics={"t-1": 6, "other": 2})
    member = cluster.member("a", Subscription(pattern="t-.*"))
    cluster.settle(member)
    cluster.topics["t-2"] = 4
    member.router.metadata.invalidate()
    cluster.settle(member, count=10)
    assert all(join.protocols for join in coordinator(cluster).joins)
    first = decode_subscription(bytes(coordinator(cluster).joins[0].protocols[0].metadata))
    assert first.topics == ("t-1",), "the first join must wait until the topics are known"


@pytest.mark.parametrize("is_later", [False, True])
def test_a_pattern_that_is_none_ends_the_membership(is_later: bool) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a", Subscription(["t"]) if is_later else Subscription(pattern="("))
    if is_later:
        cluster.settle(member)
        member.group.subscribe(Subscription(pattern="("), member.now_ms)
    cluster.run(100)
    assert [type(error) for error in member.failures] == [ConfigurationError]


def test_the_leader_notices_new_partitions() -> None:
    cluster = Cluster.of_classic()
    first, second = cluster.member("a"), cluster.member("b")
    cluster.settle(first, second)
    cluster.topics["t"] = 8
    for member in (first, second):
        member.router.metadata.invalidate()
    cluster.settle(first, second, count=8)


def test_a_topic_that_does_not_exist_holds_up_the_leader_for_a_moment_only() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a", Subscription(["t", "missing"]))
    assert cluster.until(lambda: len(member.reader.handed_out) == 6) < 6_000


def test_records_wait_until_the_listener_has_handled_their_assignment() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    member.listener.is_slow = True
    cluster.until(lambda: member.listener.waiting != [])
    cluster.run(10_000)
    assert len(member.reader.assigned) == 6, "a listener must be able to seek"
    assert member.reader.handed_out == frozenset()
    assert coordinator(cluster).state is GroupState.STABLE, "heartbeats must continue"
    member.listener.handle(member.now_ms)
    assert len(member.reader.handed_out) == 6


@pytest.mark.parametrize("closing", [False, True])
@ALL
def test_a_commit_while_the_listener_handles_a_revocation_works(assignor: str, closing: bool) -> None:
    cluster = Cluster.of_classic(assignor)
    member = cluster.member("a", auto_commit=False, auto_commit_interval_ms=None)
    cluster.settle(member)
    member.reader.read(5)
    member.listener.is_slow = True
    outcomes: list[Any] = []

    def commit(event: Event, now_ms: int) -> None:
        if isinstance(event, Revoking):
            outcomes.append(member.commit(member.reader.to_commit(event.partitions)))
        member.simulation.at(500, lambda: member.listener.handle(member.now_ms))

    member.listener.on_event = commit
    if closing:
        stopped = member.stop()
        cluster.until(lambda: stopped.done)
    else:
        cluster.settle(member, cluster.member("b"))
    assert all(isinstance(each[0], Committed) for each in outcomes)
    assert outcomes
    assert cluster.kafka.offsets


def test_a_member_that_reads_nothing_leaves_and_comes_back_with_the_next_read() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a", max_poll_interval_ms=5_000)
    cluster.settle(member)
    member.reader.last_handed_out_ms = member.now_ms
    cluster.run(4_900)
    member.reader.last_handed_out_ms = member.now_ms  # a slow record, but still progress
    cluster.run(4_900)
    assert "Lost" not in kinds(member)
    cluster.run(200)
    assert kinds(member)[-1] == "Lost"
    assert coordinator(cluster).members == {}
    cluster.run(60_000)
    assert coordinator(cluster).members == {}
    member.reader.last_handed_out_ms = None
    cluster.settle(member)


def test_the_member_says_when_it_is_to_be_polled() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a", max_poll_interval_ms=5_000, heartbeat_interval_ms=1_100)
    cluster.settle(member)
    simulation = member.simulation
    begun_ms, sent = member.now_ms, len(simulation.requests(HeartbeatRequest))
    member.reader.last_handed_out_ms = begun_ms
    simulation.run(6_000)  # without the cluster, the member is only polled when it is due, and on events
    assert len(simulation.requests(HeartbeatRequest)) - sent == 4
    left = [time for time, _, request, _ in simulation.sent if isinstance(request, LeaveGroupRequest)]
    assert left == [begun_ms + 5_000]
    assert member.group.due_ms(member.now_ms) is None


def test_a_refused_join_is_repeated_after_a_pause() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.fault = lambda node, request: refusal(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    member.simulation.run(3_000)
    joins = [time for time, _, request, _ in member.simulation.sent if isinstance(request, JoinGroupRequest)]
    assert [later - time for time, later in itertools.pairwise(joins[:5])] == [101, 201, 401, 801]


@EAGER
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("request_kind", [HeartbeatRequest, OffsetCommitRequest])
def test_a_generation_that_is_lost_is_reported_and_joined_anew(
    assignor: str, code: ErrorCode, request_kind: type[Message]
) -> None:
    cluster = Cluster.of_classic(assignor)
    member = cluster.member("a", auto_commit_interval_ms=300)
    cluster.settle(member)
    member.reader.read()
    asked: list[bool] = []

    def fault(node: int, request: Message) -> Message | None:
        if isinstance(request, request_kind) and not asked:
            asked.append(True)
            return refusal(request, code)
        return None

    cluster.fault = fault
    cluster.until(lambda: "Lost" in kinds(member))
    assert member.group.sign() is None
    cluster.settle(member)
    kept = coordinator(cluster).joins[-1].member_id == "member-1"
    assert kept is (code is ErrorCode.ILLEGAL_GENERATION)


def test_an_event_of_a_lost_generation_is_acknowledged_before_the_loss_is_reported() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    member.listener.is_slow = True
    cluster.until(lambda: member.listener.waiting != [])
    cluster.fault = once(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    cluster.run(2_000)
    assert member.reader.assigned == frozenset()
    assert kinds(member) == ["Assigned"]
    member.listener.is_slow = False
    member.listener.handle(member.now_ms)
    assert kinds(member) == ["Assigned", "Lost"]
    cluster.settle(member)


@pytest.mark.parametrize("request_kind", [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest])
@pytest.mark.parametrize("code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INVALID_SESSION_TIMEOUT])
def test_an_error_that_no_retry_can_mend_ends_the_membership(request_kind: type[Message], code: ErrorCode) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.fault = lambda node, request: refusal(request, code) if isinstance(request, request_kind) else None
    cluster.until(lambda: member.failures != [])
    cluster.run(5_000)
    assert [error.code for error in member.failures if isinstance(error, BrokerError)] == [code]
    assert member.reader.errors == [], "the error must be reported once"
    assert member.reader.assigned == frozenset()
    sent = len(member.simulation.sent)
    cluster.run(60_000)
    assert len(member.simulation.sent) == sent
    assert member.commit({TopicPartition("t", 0): OffsetAndMetadata(1)}) == member.failures


@pytest.mark.parametrize("request_kind", [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest])
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_an_error_of_the_coordinator_passes(request_kind: type[Message], code: ErrorCode) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    left = [code] * 4
    cluster.fault = lambda node, request: (
        refusal(request, left.pop()) if left and isinstance(request, request_kind) else None
    )
    cluster.until(lambda: not left)
    cluster.settle(member)
    assert "Lost" not in kinds(member)


def test_a_coordinator_that_stops_is_given_up_within_the_session() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.settle(member)
    stopped: list[int] = [2]
    cluster.fault = lambda node, request: SILENT if node in stopped else None
    cluster.run(500)
    cluster.node = 3
    assert cluster.until(lambda: any(node == 3 for _, node, _, _ in member.simulation.sent)) < 6_000
    cluster.settle(member)


def protocol_of(member: Member) -> AssignmentProtocol:
    assert isinstance(member.group, ClassicGroup)
    return member.group._rebalance._protocol


def test_a_leader_whose_assignor_raises_lets_another_one_lead_and_comes_back_once_a_read_has_raised_it() -> None:
    cluster = Cluster.of_classic()
    leader = cluster.member("a")
    cluster.settle(leader)

    def fail(*arguments: Any) -> Any:
        raise ZeroDivisionError("no members")

    protocol_of(leader).assign = fail  # type: ignore[method-assign]  # stands in for a user's assignor
    other = cluster.member("b")
    cluster.until(lambda: leader.reader.errors != [])
    assert isinstance(leader.reader.errors[0].__cause__, ZeroDivisionError)
    cluster.settle(other)
    assert cluster.now_ms < 10_000, "the other member must not wait for the former leader's session to end"
    cluster.run(60_000)
    assert (leader.reader.assigned, len(leader.reader.errors)) == (frozenset(), 1), (
        "the member must wait for the application"
    )
    leader.reader.errors.clear()
    cluster.settle(leader, other)
    assert (leader.reader.errors, leader.failures, other.failures) == ([], [], [])


def test_a_leader_whose_assignor_keeps_raising_pauses_longer_and_longer() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")

    def fail(*arguments: Any) -> Any:
        raise ZeroDivisionError("no members")

    protocol_of(member).assign = fail  # type: ignore[method-assign]  # stands in for a user's assignor
    cluster.checks.append(member.reader.errors.clear)  # the application keeps reading
    cluster.run(20_000)
    assert 10 < len(coordinator(cluster).joins) < 60
    assert member.failures == []


#: Subscriptions that members with other clients may send, and the number of topics that can be read from each.
DAMAGED = {
    "empty": (b"", 0),
    "cut off": (bytes.fromhex("0000 00000001 0001"), 0),
    "version 1 without its field": (bytes.fromhex("0001 00000001 000174 ffffffff"), 1),
    "garbage": (b"\xff" * 40, 0),
    "a huge count": (bytes.fromhex("0000 7fffffff 000174"), 0),
    "no topics": (bytes.fromhex("0000 00000003 0000 00012f 00012e ffffffff"), 0),
    "a topic twice": (bytes.fromhex("0003 00000002 000174 000174 ffffffff 00000000 ffffffff ffff"), 1),
    "a negative version": (bytes.fromhex("fffe 00000001 000174 ffffffff"), 0),
    "a later version": (bytes.fromhex("0063 00000001 000174 ffffffff 99"), 1),
    "a topic that does not exist": (bytes.fromhex("0000 00000001 000178 ffffffff"), 0),
}


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_member_that_cannot_be_read_is_the_only_one_to_suffer(damage: str, assignor: str) -> None:
    cluster = Cluster.of_classic(assignor)
    members = [cluster.member("a"), cluster.member("b")]
    cluster.settle(*members)
    alien = cluster.member("c", session_timeout_ms=6_000)
    data, topics_count = DAMAGED[damage]
    protocol_of(alien).protocols = lambda joining: [(assignor, data)]  # type: ignore[method-assign]  # another client
    cluster.settle(*members, *([alien] if topics_count else []))
    assert len(alien.reader.assigned) == (2 if topics_count else 0)
    for member in members:
        assert member.reader.errors == member.failures == []
    left = alien.stop()
    cluster.until(lambda: left.done)
    cluster.settle(*members)
    for member in members:
        assert member.router.metadata.wanted == {"t"}, "a former member's topics must no longer be requested"
        assert member.reader.errors == member.failures == []


@pytest.mark.parametrize("during", [JoinGroupRequest, SyncGroupRequest])
def test_a_topic_that_grows_during_a_rebalance_is_read_as_a_whole(during: type[Message]) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    member.simulation.latency_ms = 20

    def grow(node: int, request: Message) -> Any:
        if isinstance(request, during) and cluster.topics["t"] == 6 and member.router.metadata.topics:
            cluster.topics["t"] = 9
            response = described([1, 2, 3], {"t": [1] * 9})(MetadataRequest(None), 12)
            assert isinstance(response, MetadataResponse)

            def update(answer: MetadataResponse = response) -> None:
                member.router.metadata.update(answer, member.now_ms)

            member.simulation.at(1, update)  # before the response arrives
        return None

    cluster.fault = grow
    cluster.settle(member, count=9)
    assert cluster.topics["t"] == 9


def test_an_assignment_of_a_careless_leader_is_taken_as_far_as_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    """The leader names one partition twice, an impossible partition, and a topic that the member does not read."""
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    named = [("t", 0), ("t", 0), ("t", -1), ("x", 0), ("t", 5)]
    data = encode_assignment(TopicPartition(*each) for each in named)
    protocol_of(member).assign = lambda name, subscriptions, view: dict.fromkeys(subscriptions, data)  # type: ignore[method-assign]  # stands in for another client's leader
    cluster.run(5_000)
    assert member.reader.handed_out == {TopicPartition("t", 0), TopicPartition("t", 5)}
    assert (member.state, member.reader.errors, member.failures) == ("stable", [], [])
    (line,) = [line for line in caplog.messages if "assigned partitions of topics" in line]
    assert line == "group g: the leader assigned partitions of topics that this member does not read; ignored: x"


def test_an_assignment_that_cannot_be_read_is_reported_and_the_next_one_counts() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    assign = protocol_of(member).assign
    protocol_of(member).assign = lambda name, subscriptions, view: dict.fromkeys(subscriptions, b"?")  # type: ignore[method-assign]  # stands in for another client's leader
    cluster.run(5_000)
    assert (member.state, member.reader.assigned, member.failures) == ("stable", frozenset(), [])
    (error,) = member.reader.errors
    assert str(error).startswith("group g, generation 1: the 1-byte assignment from leader member-1 cannot be read: ")
    protocol_of(member).assign = assign  # type: ignore[method-assign]  # restored
    cluster.topics["t"] = 7
    member.router.metadata.invalidate()
    cluster.settle(member, count=7)


def test_a_heartbeat_that_fails_after_others_have_succeeded_waits_for_the_shortest_pause() -> None:
    cluster = Cluster.of_classic("range")
    member = cluster.member("a")
    cluster.settle(member)
    busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    codes = [busy, busy, busy, ErrorCode.NONE, busy]

    def fault(node: int, request: Message) -> Message | None:
        return refusal(request, codes.pop(0)) if codes and isinstance(request, HeartbeatRequest) else None

    cluster.fault = fault
    begun = len(member.simulation.sent)
    cluster.run(5_000)
    beats = [at for at, _, request, _ in member.simulation.sent[begun:] if isinstance(request, HeartbeatRequest)]
    pauses_ms = [later - earlier - 1 for earlier, later in itertools.pairwise(beats[:6])]
    assert pauses_ms == [100, 200, 400, 500, 100]
