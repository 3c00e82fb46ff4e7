"""A member of a KIP-848 group sends heartbeats, reconciles, is fenced and leaves as Kafka's own consumer does.

Method: run members with a simulated coordinator that checks epochs and owned partitions as Kafka's does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, UnsupportedVersion
from kafkawire.sdk.groups.commit_outcome import Committed, Fenced, Rebalanced
from kafkawire.sdk.groups.protocol import Event, Revoking
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.consumer_coordinator import ConsumerCoordinator
from tests.sdk.groups.members import Cluster, Member, refusal
from tests.sdk.simulation import SILENT


def coordinator(cluster: Cluster) -> ConsumerCoordinator:
    assert isinstance(cluster.kafka, ConsumerCoordinator)
    return cluster.kafka


def heartbeats(member: Member) -> list[ConsumerGroupHeartbeatRequest]:
    return member.simulation.requests(ConsumerGroupHeartbeatRequest)


def kinds(member: Member) -> list[str]:
    """Return the names of a member's events."""
    return [type(event).__name__ for event in member.listener.events]


def refuse(code: ErrorCode, when: Callable[[ConsumerGroupHeartbeatRequest], bool], times: int = 1) -> Any:
    """Return a fault that refuses the given number of heartbeats."""
    left = [code] * times

    def fault(node: int, request: Message) -> Message | None:
        if left and isinstance(request, ConsumerGroupHeartbeatRequest) and when(request):
            return refusal(request, left.pop())
        return None

    return fault


def test_members_share_the_partitions_and_go_on_reading_what_they_keep() -> None:
    cluster = Cluster.of_consumers()
    members = [cluster.member("a")]
    cluster.settle(*members)
    for name in "bc":
        members.append(cluster.member(name))
        cluster.settle(*members)
    left = members.pop(1).stop()
    cluster.until(lambda: left.done)
    cluster.settle(*members)
    assert kinds(members[0]) == ["Assigned", "Revoking", "Revoking", "Assigned"]


def test_a_commit_that_was_rejected_is_followed_by_a_heartbeat_at_once() -> None:
    """The heartbeat shows whether the member was fenced; a rejected commit from a former epoch causes no heartbeat."""
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    signature = member.group.sign()
    assert signature is not None
    error = BrokerError(ErrorCode.STALE_MEMBER_EPOCH)
    due_ms = member.group.due_ms(member.now_ms)
    assert due_ms is not None
    assert due_ms > member.now_ms
    member.group.rejected(signature._replace(generation_id=99), error, member.now_ms)
    assert member.group.due_ms(member.now_ms) == due_ms
    member.group.rejected(signature, error, member.now_ms)
    assert member.group.due_ms(member.now_ms) == member.now_ms


def test_a_heartbeat_says_what_has_changed_and_nothing_else() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", rack="r1", server_assignor="uniform")
    assert not member.group.is_current(0)
    cluster.settle(member)
    join, owns, *later = heartbeats(member)
    assert (join.member_epoch, join.rack_id, join.server_assignor) == (0, "r1", "uniform")
    assert (join.subscribed_topic_names, join.subscribed_topic_regex) == (("t",), None)
    assert (join.rebalance_timeout_ms, join.topic_partitions) == (30_000, ())
    assert owns.topic_partitions is not None
    assert len(owns.topic_partitions[0].partitions) == 6
    assert (owns.subscribed_topic_names, owns.rack_id, owns.rebalance_timeout_ms) == (None, None, -1)
    assert later
    assert all(each.topic_partitions is None for each in later)


def test_everything_is_said_again_after_a_heartbeat_that_may_have_been_lost() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    member.simulation.break_connections(2)
    cluster.fault = refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, lambda request: True)
    sent = len(heartbeats(member))
    cluster.run(5_000)
    again = heartbeats(member)[sent + 1]
    assert again.subscribed_topic_names == ("t",)
    assert again.topic_partitions
    assert len(again.topic_partitions[0].partitions) == 6
    assert kinds(member) == ["Assigned"]


def test_a_partition_is_given_up_before_another_member_gets_it() -> None:
    cluster = Cluster.of_consumers()
    first = cluster.member("a", auto_commit_interval_ms=None)
    cluster.settle(first)
    first.reader.read(4)
    first.listener.is_slow = True
    second = cluster.member("b")
    cluster.until(lambda: first.listener.waiting != [])
    cluster.run(8_000)
    assert second.reader.assigned == frozenset()
    assert len(first.reader.handed_out) == 3
    assert len(first.reader.assigned) == 6
    assert len(cluster.kafka.offsets) == 3, "they must be committed before the listener is told"
    first.listener.is_slow = False
    first.listener.handle(first.now_ms)
    cluster.settle(first, second)
    assert {second.reader.positions[partition] for partition in second.reader.assigned} == {4}


def test_no_record_is_read_twice_in_a_rebalance() -> None:
    """The latency is 100 ms, and a record in each partition is finished every 5 ms."""
    cluster = Cluster.of_consumers()
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


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again(code: ErrorCode) -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", auto_commit_interval_ms=None)
    cluster.settle(member)
    member.reader.read()
    member.listener.is_slow = True
    cluster.fault = refuse(code, lambda request: True)
    outcomes: list[Any] = []
    cluster.checks.append(lambda: outcomes.append(member.commit()) if not outcomes else None)
    cluster.until(lambda: member.listener.waiting != [])
    assert kinds(member)[-1] == "Lost"
    assert member.group.sign() is None
    sent = len(heartbeats(member))
    cluster.run(5_000)
    assert len(heartbeats(member)) == sent, "the member must not join before the listener has handled the loss"
    member.listener.is_slow = False
    member.listener.handle(member.now_ms)
    cluster.settle(member)
    assert heartbeats(member)[sent].member_epoch == 0
    assert heartbeats(member)[sent].member_id == "a"
    assert isinstance(outcomes[0][0], Committed | Fenced)


def test_a_commit_with_an_outdated_epoch_is_sent_again_with_the_present_one() -> None:
    cluster = Cluster.of_consumers()
    first = cluster.member("a", auto_commit_interval_ms=None)
    cluster.settle(first)
    first.reader.read()
    left = [ErrorCode.STALE_MEMBER_EPOCH] * 3
    cluster.fault = lambda node, request: (
        refusal(request, left.pop()) if left and isinstance(request, OffsetCommitRequest) else None
    )
    outcomes = first.commit()
    second = cluster.member("b")
    cluster.settle(first, second)
    assert isinstance(outcomes[0], Committed | Rebalanced)
    assert len(outcomes[0].offsets) >= 3
    assert "Lost" not in kinds(first)


def test_a_subscription_can_change_at_any_time() -> None:
    cluster = Cluster.of_consumers({"t": 6, "u": 3})
    member = cluster.member("a")
    member.group.subscribe(Subscription(["t", "u"]), member.now_ms)
    cluster.settle(member, count=9)
    member.group.subscribe(Subscription(["u"]), member.now_ms)
    assert {partition.topic for partition in member.reader.handed_out} == {"u"}
    cluster.settle(member, count=3)


@pytest.mark.parametrize("later", [Subscription(["t", "u"]), Subscription(pattern="t|u")])
def test_a_subscription_that_is_changed_and_changed_back_goes_on(later: Subscription) -> None:
    cluster = Cluster.of_consumers({"t": 6, "u": 3})
    member = cluster.member("a", Subscription(["t", "u"]))
    cluster.settle(member, count=9)
    told = len(member.listener.events)
    member.group.subscribe(Subscription(["t"]), member.now_ms)
    assert {partition.topic for partition in member.reader.handed_out} == {"t"}
    member.group.subscribe(later, member.now_ms)
    cluster.run(5_000)
    assert len(member.reader.handed_out) == 9
    assert len(member.listener.events) == told


def test_a_pattern_is_matched_by_the_coordinator() -> None:
    cluster = Cluster.of_consumers({"t-1": 6, "t-2": 2, "other": 1})
    member = cluster.member("a", Subscription(pattern="t-.*"))
    cluster.settle(member, count=8)
    assert heartbeats(member)[0].subscribed_topic_regex == "t-.*"
    cluster.fault = lambda node, request: SILENT
    member.group.subscribe(Subscription(pattern=r"\p{Greek}*[^-]+"), member.now_ms)
    cluster.run(50)
    assert heartbeats(member)[-1].subscribed_topic_regex == r"\p{Greek}*[^-]+", "Python need not understand the pattern"


def test_names_replace_a_pattern() -> None:
    cluster = Cluster.of_consumers({"t-1": 6, "t-2": 2, "other": 1})
    member = cluster.member("a", Subscription(pattern="t-.*"))
    cluster.settle(member, count=8)
    member.group.subscribe(Subscription(["other"]), member.now_ms)
    cluster.settle(member, count=1)
    assert coordinator(cluster).members["a"].regex is None


def test_a_pattern_is_matched_by_the_member_where_the_coordinator_cannot() -> None:
    cluster = Cluster.of_consumers({"t-1": 6, "t-2": 2, "other": 1})
    member = cluster.member("a", Subscription(pattern="t-.*"))
    member.simulation.newest[ApiKey.CONSUMER_GROUP_HEARTBEAT] = 0
    cluster.settle(member, count=8)
    cluster.topics["t-3"] = 1
    coordinator(cluster).topics["t-3"] = 1
    member.router.metadata.invalidate()
    cluster.settle(member, count=9)


def test_a_topic_that_is_not_in_the_metadata_yet_follows() -> None:
    cluster = Cluster.of_consumers({"t": 6})
    coordinator(cluster).topics["u"] = 2
    member = cluster.member("a", Subscription(["t", "u"]))
    cluster.until(lambda: len(member.reader.handed_out) == 6)
    cluster.run(3_000)
    cluster.topics["u"] = 2
    cluster.settle(member, count=8)


def test_partitions_of_a_topic_that_the_metadata_lacks_for_a_while_are_kept() -> None:
    """A new target arrives while a broker that has just started does not know one of the topics yet."""
    cluster = Cluster.of_consumers({"t": 6, "u": 6})
    first = cluster.member("a", Subscription(["t", "u"]))
    cluster.settle(first, count=12)
    del cluster.topics["t"]
    first.router.metadata.invalidate()
    cluster.until(lambda: "t" not in first.router.metadata.topics)
    second = cluster.member("b", Subscription(["u"]))
    cluster.until(lambda: len(second.reader.handed_out) == 6)
    cluster.run(3_000)
    assert {each.topic for each in second.reader.assigned} == {"u"}
    (revoked,) = (event.partitions for event in first.listener.events if isinstance(event, Revoking))
    assert {each.topic for each in revoked} == {"u"}
    assert {each.topic for each in first.reader.handed_out} == {"t"}


def test_a_topic_that_was_created_anew_is_read_anew() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    group: Any = member.group
    partition = TopicPartition("t", 0)
    group._ids[partition] = b"former id of t--"
    group._target = frozenset((member.router.metadata.topic_id("t"), number) for number in range(6))
    told = len(member.listener.events)
    cluster.run(100)
    assert [(type(event).__name__, event.partitions) for event in member.listener.events[told:]] == [
        ("Revoking", {partition}),
        ("Assigned", {partition}),
    ]


def test_a_static_member_leaves_for_a_while_and_comes_back() -> None:
    cluster = Cluster.of_consumers()
    first = cluster.member("a", group_instance_id="one")
    second = cluster.member("b", group_instance_id="two")
    cluster.settle(first, second)
    had, told = first.reader.assigned, len(second.listener.events)
    stopped = first.stop()
    cluster.until(lambda: stopped.done)
    assert heartbeats(first)[-1].member_epoch == -2
    again = cluster.member("a2", group_instance_id="one")
    cluster.settle(again, second)
    assert again.reader.assigned == had
    assert len(second.listener.events) == told


def test_a_static_member_waits_for_a_former_process_and_not_for_ever() -> None:
    cluster = Cluster.of_consumers()
    first = cluster.member("a", group_instance_id="one")
    cluster.settle(first)
    first.simulation.close()
    cluster.members.remove(first)
    second = cluster.member("b", group_instance_id="one")
    assert 30_000 < cluster.until(lambda: len(second.reader.handed_out) == 6) < 50_000
    other = cluster.member("c", group_instance_id="one")
    assert 55_000 < cluster.until(lambda: other.failures != [], 70_000) < 65_000
    assert isinstance(other.failures[0], BrokerError)
    assert other.failures[0].code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_dynamic_member_leaves_after_it_has_committed_and_told() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", auto_commit_interval_ms=None)
    cluster.settle(member)
    member.reader.read(7)
    outcomes: list[Any] = []

    def commit(event: Event, now_ms: int) -> None:
        if isinstance(event, Revoking):
            outcomes.append(member.commit({TopicPartition("t", 0): OffsetAndMetadata(8)}))
        member.simulation.at(100, lambda: member.listener.handle(member.now_ms))

    member.listener.is_slow = True
    member.listener.on_event = commit
    stopped = member.stop()
    cluster.until(lambda: stopped.done)
    assert isinstance(outcomes[0][0], Committed)
    assert sorted(offset.offset for offset in cluster.kafka.offsets.values()) == [7, 7, 7, 7, 7, 8]
    assert heartbeats(member)[-1].member_epoch == -1
    assert coordinator(cluster).members == {}
    sent = len(member.simulation.sent)
    cluster.run(30_000)
    assert len(member.simulation.sent) == sent


def test_a_member_that_is_fenced_while_it_leaves_has_left() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    member.listener.is_slow = True
    stopped = member.stop(20_000)
    cluster.fault = refuse(ErrorCode.UNKNOWN_MEMBER_ID, lambda request: True)
    cluster.run(2_000)
    member.listener.handle(member.now_ms)
    assert stopped.done
    assert member.reader.assigned == frozenset()


@pytest.mark.parametrize("is_slow", [False, True])
def test_stop_keeps_its_limit_against_a_coordinator_that_has_stopped(is_slow: bool) -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    member.reader.read()
    cluster.fault = lambda node, request: SILENT
    member.listener.is_slow = is_slow
    stopped, second = member.stop(2_000), member.stop(9_000)
    assert 1_990 <= cluster.until(lambda: stopped.done) <= 2_010
    assert second.done
    assert kinds(member)[-1] == "Revoking"


def test_a_member_that_reads_nothing_leaves_and_comes_back_with_the_next_read() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", max_poll_interval_ms=5_000)
    cluster.settle(member)
    member.reader.last_handed_out_ms = member.now_ms
    cluster.run(5_100)
    assert kinds(member)[-1] == "Lost"
    assert coordinator(cluster).members == {}
    cluster.run(60_000)
    assert coordinator(cluster).members == {}
    member.reader.last_handed_out_ms = None
    cluster.settle(member)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_leave_is_repeated_until_the_member_joins_again_or_is_closed(is_closed: bool) -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", max_poll_interval_ms=5_000)
    cluster.settle(member)
    cluster.fault = refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, lambda request: request.member_epoch == -1, 3)
    member.reader.last_handed_out_ms = member.now_ms
    cluster.until(lambda: member.state == "outside")
    if is_closed:
        stopped = member.stop()
        cluster.until(lambda: stopped.done)
        assert coordinator(cluster).members == {}
        return
    cluster.run(200)
    member.reader.last_handed_out_ms = None
    cluster.settle(member)
    epochs = [request.member_epoch for request in heartbeats(member)]
    assert epochs.index(-1) < epochs.index(0, 1), "the member must leave and join again"
    assert -1 not in epochs[epochs.index(0, 1) :]
    assert kinds(member) == ["Assigned", "Lost", "Assigned"]


def test_the_member_says_when_it_is_to_be_polled() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", max_poll_interval_ms=5_300)
    cluster.settle(member)
    begun_ms, sent = member.now_ms, len(heartbeats(member))
    member.reader.last_handed_out_ms = begun_ms
    member.simulation.run(6_000)  # without the cluster, the member is only polled when it is due, and on events
    times = [time for time, _, _, _ in member.simulation.sent][-1 - 5 :]
    assert len(heartbeats(member)) - sent in (6, 7)
    assert (heartbeats(member)[-1].member_epoch, times[-1]) == (-1, begun_ms + 5_300)
    assert member.group.due_ms(member.now_ms) is None


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.INVALID_REGULAR_EXPRESSION],
)
def test_an_error_that_no_retry_can_mend_ends_the_membership(code: ErrorCode) -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    cluster.fault = refuse(code, lambda request: True, 100)
    cluster.until(lambda: member.failures != [])
    cluster.run(20_000)
    assert [error.code for error in member.failures if isinstance(error, BrokerError)] == [code]
    assert (member.reader.assigned, kinds(member)[-1]) == (frozenset(), "Lost")


def test_a_broker_without_kip_848_ends_the_membership_at_once() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")

    def unsupported(node: int, request: Message) -> Exception:
        raise AssertionError("nothing may be sent")

    cluster.fault = unsupported
    group: Any = member.group
    group._refused(UnsupportedVersion("ConsumerGroupHeartbeat"), member.now_ms)
    assert isinstance(member.failures[0], UnsupportedVersion)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_an_error_of_the_coordinator_passes(code: ErrorCode) -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.fault = refuse(code, lambda request: True, 5)
    cluster.settle(member)
    cluster.fault = refuse(code, lambda request: True, 5)
    cluster.run(10_000)
    assert kinds(member) == ["Assigned"]


def test_the_response_to_a_heartbeat_of_a_former_membership_is_dropped() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    group: Any = member.group
    cluster.fault = lambda node, request: SILENT
    cluster.until(lambda: group._heartbeat is not None)
    call = group._heartbeat
    group._lose(BrokerError(ErrorCode.FENCED_MEMBER_EPOCH), member.now_ms)
    epoch = group._epoch
    call.settle(ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=99), None, member.now_ms)
    assert (group._epoch, member.group.sign()) == (epoch, None)


def test_an_instance_id_is_waited_for_anew_after_an_absence() -> None:
    """The member waits for its instance id, leaves because the application does not read, and comes back much later."""
    cluster = Cluster.of_consumers()
    member = cluster.member("a", group_instance_id="one", max_poll_interval_ms=20_000)
    member.reader.last_handed_out_ms = member.now_ms
    cluster.fault = lambda node, request: refusal(request, ErrorCode.UNRELEASED_INSTANCE_ID)
    cluster.run(30_000)
    assert (member.state, member.failures) == ("outside", [])
    cluster.run(100_000)
    member.reader.last_handed_out_ms = None
    cluster.run(10_000)
    assert member.failures == []
    cluster.fault = lambda node, request: None
    cluster.settle(member)


def test_a_rebalance_after_an_absence_is_another_one() -> None:
    """The rebalance's duration does not include the time outside the group."""
    cluster = Cluster.of_consumers()
    cluster.settle(cluster.member("other"))
    member = cluster.member("a", max_poll_interval_ms=20_000)
    member.listener.is_slow = True
    cluster.run(5_000)
    member.reader.last_handed_out_ms = member.now_ms
    cluster.run(100_000)
    assert member.reader.assigned == frozenset()
    member.listener.is_slow = False
    member.listener.handle(member.now_ms)
    member.reader.last_handed_out_ms = None
    cluster.settle(*cluster.members)
    longest = next(
        value
        for name, value in member.router.metrics.read(member.now_ms).items()
        if name.name == "rebalance-latency-max"
    )
    assert longest < 20_000


def test_a_target_of_unknown_topics_keeps_nothing_else_from_being_read() -> None:
    """The topic was deleted or is not visible; its metadata is requested once a second, and other topics are read."""
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    kind = ConsumerGroupHeartbeatResponse

    def with_unknown_topics(request: Any, version: int) -> Any:
        response = cluster.kafka.handlers[ConsumerGroupHeartbeatRequest](request, version)
        if response.assignment is not None:
            unknown = [kind.TopicPartitions(bytes([each] * 16), [0, 0, 7]) for each in (250, 251)]
            response.assignment = kind.Assignment([*response.assignment.topic_partitions, *unknown])
        return response

    for node in (1, 2, 3):
        member.simulation.handlers[node, ConsumerGroupHeartbeatRequest] = with_unknown_topics
    cluster.run(20_000)
    assert (len(member.reader.handed_out), member.reader.errors, member.failures) == (6, [], [])
    assert len(member.simulation.requests(MetadataRequest)) < 40
