"""A member of a share group adopts every assignment, and joins again under the same id after any fault.

Method: run the member alone on a simulated clock; a few lines act as the coordinator. For the edges of the state table,
bring the member to the state where an edge begins, then cause the transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkawire.sdk.errors import AuthenticationFailed, BrokerError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.groups.protocol import GroupSettings
from kafkawire.sdk.groups.share_group import SHARE_MEMBERSHIP_EDGES, ShareGroup, ShareMemberState
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.edges import taken
from tests.sdk.groups.readers import MemoryReader
from tests.sdk.simulation import SILENT, Silent, Simulation, address, backoff, cluster, options, topic_id

MEMBER_ID = "4a1f0d7e-0000-4000-8000-000000000001"
INTERVAL_MS = 1_000
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)

State = ShareMemberState


class Group:
    """A member and its coordinator, which is node 2.

    Attributes:
        target: the numbers of the assigned partitions, keyed by topic.
        epoch: the member's epoch at the coordinator.
        fault: replaces the coordinator's answer if it is not None.
        adopted: the assignments that the member has adopted.
        failures: the errors that have ended the membership.
    """

    def __init__(self, rack: str | None = "r") -> None:
        self.router = Router(options(), backoff())
        self.reader = MemoryReader()
        self.adopted: list[dict[TopicPartition, bytes]] = []
        self.failures: list[KafkaWireError] = []
        settings = GroupSettings("g", rack=rack, max_poll_interval_ms=30_000)
        self.member = ShareGroup(
            self.router, backoff(), settings, MEMBER_ID, self.reader, self._adopt, lambda error, _: self._fails(error)
        )
        self.simulation = Simulation(self.router, self.member)
        self.topics = {"t": [1, 1], "u": [1]}
        self.target: dict[str, list[int]] = {"t": [0, 1]}
        self.sent_target: dict[str, list[int]] = {}
        self.epoch = 0
        self.fault: ErrorCode | Silent | None = None
        found = FindCoordinatorResponse(coordinators=[FindCoordinatorResponse.Coordinator("g", 2, *address(2))])
        self.simulation.handlers = {
            FindCoordinatorRequest: lambda request, version: found,
            MetadataRequest: lambda request, version: cluster((1, 2), self.topics)(request, version),
            ShareGroupHeartbeatRequest: self._heartbeat,
        }

    def _adopt(self, partitions: Mapping[TopicPartition, bytes], now_ms: int) -> None:
        self.simulation.check_time(now_ms)
        self.adopted.append(dict(partitions))

    def _fails(self, error: KafkaWireError) -> None:
        assert self.adopted[-1:] in ([{}], []), "the partitions must be given up first"
        self.failures.append(error)

    def _heartbeat(self, request: ShareGroupHeartbeatRequest, version: int) -> Message | Silent:
        if isinstance(self.fault, Silent):
            return self.fault
        if self.fault is not None:
            return ShareGroupHeartbeatResponse(error_code=self.fault, error_message="said the coordinator")
        if request.member_epoch >= 0:
            assert request.member_epoch in (0, self.epoch)
            if request.member_epoch == 0:
                assert request.subscribed_topic_names, "a member that joins names its topics"
                self.sent_target = {}
                self.epoch += 1
        assignment = None
        if self.sent_target != self.target and request.member_epoch >= 0:
            self.sent_target = dict(self.target)
            assignment = ShareGroupHeartbeatResponse.Assignment(
                [
                    ShareGroupHeartbeatResponse.TopicPartitions(topic_id(topic), numbers)
                    for topic, numbers in self.target.items()
                ]
            )
        return ShareGroupHeartbeatResponse(
            member_id=MEMBER_ID,
            member_epoch=-1 if request.member_epoch < 0 else self.epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=assignment,
        )

    @property
    def state(self) -> ShareMemberState:
        return self.member.state

    @property
    def beats(self) -> list[Any]:
        """The heartbeats so far."""
        return self.simulation.requests(ShareGroupHeartbeatRequest)

    def subscribe(self, *topics: str) -> None:
        self.member.subscribe(Subscription(topics), self.simulation.now_ms)

    def run(self, duration_ms: int = 100) -> None:
        self.simulation.run(duration_ms)

    def stop(self) -> Promise[None]:
        promise: Promise[None] = Promise()
        self.member.stop(self.simulation.now_ms + 5_000, promise, self.simulation.now_ms)
        return promise

    def go_idle(self) -> None:
        """Let the member leave because the application does not read."""
        self.reader.last_handed_out_ms = self.simulation.now_ms - 40_000
        self.run()


def test_a_refused_login_does_not_end_the_membership() -> None:
    group = joined()
    simulation = group.simulation
    simulation.down, simulation.refusal = {1, 2}, AuthenticationFailed
    for node in (1, 2):
        simulation.break_connections(node)
    group.run(60_000)
    assert {type(error) for error in group.reader.errors} == {AuthenticationFailed}
    assert (group.failures, len(simulation.opened) < 12) == ([], True)
    simulation.down = set()
    beats = len(group.beats)
    group.run(35_000)
    assert (group.state, len(group.beats) > beats) == (State.MEMBER, True)


def joined(**given: Any) -> Group:
    group = Group(**given)
    group.subscribe("t")
    group.run()
    assert group.state is State.MEMBER
    return group


def test_joining_and_beating() -> None:
    group = joined()
    assert group.adopted == [{T0: topic_id("t"), T1: topic_id("t")}]
    (first,) = group.beats
    assert (first.group_id, first.member_id, first.member_epoch, first.rack_id) == ("g", MEMBER_ID, 0, "r")
    assert list(first.subscribed_topic_names) == ["t"]
    assert group.member.last_heartbeat_ms is not None
    group.run(2 * INTERVAL_MS)
    assert len(group.beats) == 3
    assert [(beat.member_epoch, beat.rack_id, beat.subscribed_topic_names) for beat in group.beats[1:]] == [
        (1, None, None)
    ] * 2, "nothing that the coordinator knows is said again"
    assert len(group.adopted) == 1


def test_a_member_without_a_subscription_says_nothing() -> None:
    group = Group()
    group.run(10_000)
    assert (group.beats, group.state, group.member.due_ms(group.simulation.now_ms)) == ([], State.OUTSIDE, None)
    assert group.stop().done


def test_another_subscription_is_said_at_once() -> None:
    group = joined()
    group.target = {"t": [0], "u": [0]}
    group.subscribe("u", "t")
    group.run()
    assert list(group.beats[-1].subscribed_topic_names) == ["t", "u"]
    assert group.adopted[-1] == {T0: topic_id("t"), U0: topic_id("u")}


def test_a_topic_that_the_metadata_does_not_list_yet() -> None:
    group = joined()
    group.topics = {"t": [1, 1]}
    group.target = {"t": [0], "v": [0]}
    group.subscribe("t", "v")
    group.run(2_000)
    assert group.adopted[-1] == {T0: topic_id("t")}
    group.topics = {"t": [1, 1], "v": [1]}
    group.run(2_000)
    assert group.adopted[-1] == {T0: topic_id("t"), TopicPartition("v", 0): topic_id("v")}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_joins_again(code: ErrorCode) -> None:
    group = joined()
    group.fault = code
    group.simulation.at(INTERVAL_MS + 50, lambda: setattr(group, "fault", None))
    group.run(10_000)
    assert group.adopted == [group.adopted[0], {}, group.adopted[0]]
    assert {beat.member_id for beat in group.beats} == {MEMBER_ID}
    again = [beat for beat in group.beats[1:] if beat.member_epoch == 0]
    assert all(list(beat.subscribed_topic_names) == ["t"] for beat in again)
    assert again
    assert (group.state, group.failures, group.reader.errors) == (State.MEMBER, [], [])


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, SILENT])
def test_faults_that_pass(code: ErrorCode | Silent) -> None:
    group = joined()
    group.fault = code
    group.run(5_000)
    group.fault = None
    group.run(15_000)
    assert (group.state, len(group.adopted), group.failures, group.reader.errors) == (State.MEMBER, 1, [], [])
    repeated = next(beat for beat in group.beats[2:] if beat.subscribed_topic_names)
    assert (repeated.member_epoch, repeated.rack_id) == (1, "r"), "the lost heartbeat may have told of a change"


def test_a_member_that_may_not_read_tells_the_application() -> None:
    group = joined()
    group.fault = ErrorCode.GROUP_AUTHORIZATION_FAILED
    group.run(2_000)
    (error,) = group.reader.errors
    assert isinstance(error, BrokerError)
    assert "g" in str(error)
    assert (group.state, group.adopted[-1], group.failures) == (State.JOINING, {}, [])
    count = len(group.beats)
    group.run(10_000)
    assert len(group.beats) == count, "it waits until a read has raised the error"
    group.reader.errors.clear()
    group.fault = None
    group.run(2_000)
    assert group.state is State.MEMBER


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID])
def test_errors_that_end_the_membership(code: ErrorCode) -> None:
    group = joined()
    group.fault = code
    group.run(20_000)
    assert (group.state, group.adopted[-1]) == (State.OUTSIDE, {})
    assert group.failures == [group.member.failure]
    assert isinstance(group.member.failure, UnsupportedVersion) is (code is ErrorCode.UNSUPPORTED_VERSION)
    assert len(group.beats) == 2
    assert group.member.due_ms(group.simulation.now_ms) is None


def test_a_cluster_without_share_groups() -> None:
    group = Group()
    group.simulation.newest[ApiKey.SHARE_GROUP_HEARTBEAT] = -1
    group.subscribe("t")
    group.run(1_000)
    (error,) = group.failures
    assert str(error) == "group g: the cluster does not support share groups, which need Apache Kafka 4.1 or later"


def test_a_group_that_is_full() -> None:
    group = Group()
    group.fault = ErrorCode.GROUP_MAX_SIZE_REACHED
    group.subscribe("t")
    group.run(1_000)
    (error,) = group.reader.errors
    assert isinstance(error, BrokerError)
    group.subscribe("t")  # the application has reacted
    group.fault = None
    group.run(1_000)
    assert group.state is State.MEMBER


def test_a_member_that_does_not_read_leaves_until_it_does() -> None:
    group = joined()
    group.go_idle()
    assert (group.state, group.adopted[-1], group.beats[-1].member_epoch) == (State.OUTSIDE, {}, -1)
    count = len(group.beats)
    group.run(60_000)
    assert len(group.beats) == count
    group.reader.last_handed_out_ms = None
    group.run()
    assert group.state is State.MEMBER
    assert group.adopted[-1] == group.adopted[0]
    assert group.reader.errors == []


def test_a_leave_that_is_not_confirmed_does_not_end_the_next_membership() -> None:
    group = joined()
    group.fault = SILENT
    group.go_idle()
    group.fault = None
    group.reader.last_handed_out_ms = None
    group.run(60_000)
    assert group.state is State.MEMBER
    assert [beat.member_epoch for beat in group.beats].count(-1) == 1


def test_the_interval_counts_from_the_last_read() -> None:
    group = joined()
    group.reader.last_handed_out_ms = group.simulation.now_ms
    due_ms = group.simulation.now_ms + 30_000
    group.run(29_999)
    assert group.state is State.MEMBER
    group.simulation.run(due_ms - group.simulation.now_ms)
    assert group.state is State.OUTSIDE


@pytest.mark.parametrize("fault", [None, SILENT, ErrorCode.UNKNOWN_MEMBER_ID])
def test_leaving(fault: Any) -> None:
    group = joined()
    group.fault = fault
    promise = group.stop()
    assert group.state is State.OUTSIDE
    group.run(5_001)
    assert promise.done
    assert group.beats[-1].member_epoch == -1
    count = len(group.beats)
    group.run(60_000)
    assert len(group.beats) == count


def test_leaving_while_joining() -> None:
    group = Group()
    group.fault = SILENT
    group.subscribe("t")
    group.run()
    assert group.state is State.JOINING
    group.fault = None
    promise = group.stop()
    group.run(60_000)
    assert promise.done
    assert group.beats[-1].member_epoch == -1, "the coordinator may have received the heartbeat"


def test_a_client_that_ends() -> None:
    group = joined()
    error = KafkaWireError("ended")
    group.member.fail(error, group.simulation.now_ms)
    assert (group.state, group.member.failure) == (State.OUTSIDE, error)
    group.member.fail(KafkaWireError("again"), group.simulation.now_ms)
    assert group.member.failure is error
    group.run(10_000)
    assert len(group.beats) == 1


@pytest.mark.parametrize(("before", "after"), list(SHARE_MEMBERSHIP_EDGES))
def test_every_edge(before: State, after: State) -> None:
    group = Group()
    if before is not State.OUTSIDE:
        group.fault = SILENT if before is State.JOINING else None
        group.subscribe("t")
        group.run()
    assert group.state is before
    with taken(SHARE_MEMBERSHIP_EDGES) as steps:
        match after:
            case State.OUTSIDE if before is State.OUTSIDE:
                group.stop()
            case State.OUTSIDE:
                group.go_idle()
            case State.JOINING if before is State.OUTSIDE:
                group.subscribe("t")
                group.run()
            case State.JOINING:
                group.fault = ErrorCode.FENCED_MEMBER_EPOCH
                group.run(2_000)
            case State.MEMBER:
                group.fault = None
                group.run(20_000)
    assert (before, after) in steps
