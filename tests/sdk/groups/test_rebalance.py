"""A member takes part in a rebalance: it joins, leads if it is asked to, and learns its assignment.

Method: run a rebalance on a simulated client, with a member that records its callbacks and with a plain-text protocol.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Mapping
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
    DecodeError,
    KafkaWireError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.groups.assignor import MemberSubscription, Subscriptions
from kafkawire.sdk.groups.assignors.sticky import StickyAssignor
from kafkawire.sdk.groups.classic_protocol import ClusterView, GroupSubscriptions, Joining, MemberInfo
from kafkawire.sdk.groups.consumer_protocol import decode_subscription
from kafkawire.sdk.groups.protocol import GroupSettings
from kafkawire.sdk.groups.rebalance import Rebalance
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from tests.sdk.groups.members import Cluster
from tests.sdk.simulation import SILENT, Simulation, address, backoff, cluster, options

JOINING = Joining(frozenset("t"), frozenset(), -1, None, frozenset(), -1)


class PlainProtocol:
    """A protocol that assigns partition 0 of each topic to every member; see `AssignmentProtocol`."""

    protocol_type = "plain"
    cooperative = False
    views: list[ClusterView]

    def __init__(self) -> None:
        self.views = []

    def protocols(self, joining: Joining) -> list[tuple[str, bytes]]:
        return [("first", b"t"), ("second", b"t")]

    def read(self, members: Mapping[str, MemberInfo]) -> GroupSubscriptions:
        said = {each: member.metadata.decode() for each, member in members.items() if member.metadata != b"?"}
        damage = {each: "a question mark" for each in members if each not in said}
        return GroupSubscriptions(
            {each: MemberSubscription((said[each],) if each in said else ()) for each in members}, damage
        )

    def assign(self, protocol_name: str, subscriptions: Subscriptions, view: ClusterView) -> dict[str, bytes]:
        self.views.append(view)
        assert protocol_name == "first"
        return dict.fromkeys(subscriptions, ",".join(view.partition_counts).encode())

    def assignment(self, data: bytes) -> frozenset[TopicPartition]:
        if data == b"?":
            raise DecodeError("", 0, "it is a question mark")
        return frozenset(TopicPartition(topic, 0) for topic in data.decode().split(","))


class Scene:
    """A member that records its callbacks; see `RebalanceMember`."""

    def __init__(self, protocol: PlainProtocol | None = None) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.protocol = protocol or PlainProtocol()
        self.router = Router(options(), backoff())
        settings = GroupSettings("g", max_poll_interval_ms=20_000)
        self.rebalance = Rebalance(self.router, settings, self.protocol, self)
        self.simulation = Simulation(self.router)
        self.simulation.machines.append(self)  # type: ignore[arg-type]  # it polls the rebalance
        self.simulation.handlers[MetadataRequest] = cluster([1], {"t": [1, 1], "u": [1]})
        self.simulation.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator("g", 1, *address(1))]
        )
        self.joined_as = JoinGroupResponse(
            generation_id=3, protocol_name="first", leader="l", member_id="m", members=[]
        )
        self.simulation.handlers[JoinGroupRequest] = lambda request, version: self.joined_as
        self.simulation.handlers[SyncGroupRequest] = lambda request, version: SyncGroupResponse(assignment=b"t")
        self.router.metadata.wanted = {"t"}

    def lead(self, *topics: bytes, skips: bool = False) -> None:
        """Make the member lead a group whose members read these topics."""
        members = [
            JoinGroupResponse.JoinGroupResponseMember(f"m{number or ''}", None, topic)
            for number, topic in enumerate(topics)
        ]
        self.joined_as = JoinGroupResponse(
            generation_id=3,
            protocol_name="first",
            leader="m",
            member_id="m",
            members=members,
            skip_assignment=skips,
        )

    def begin(self, duration_ms: int = 100) -> None:
        self.rebalance.begin("", JOINING, "why", self.simulation.now_ms)
        self.simulation.run(duration_ms)

    def poll(self, now_ms: int) -> None:
        self.rebalance.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        return self.rebalance.due_ms()

    def joined(self, member_id: str, generation: int, now_ms: int) -> None:
        self.heard.append(("joined", member_id, generation))

    def assigned(self, partitions: frozenset[TopicPartition], now_ms: int) -> None:
        self.heard.append(("assigned", {partition.topic for partition in partitions}))

    def join_refused(self, error: KafkaWireError, member_id: str, now_ms: int) -> None:
        self.heard.append(("join refused", type(error), member_id))

    def sync_refused(self, error: KafkaWireError, now_ms: int) -> None:
        self.heard.append(("sync refused", type(error)))

    def assignor_failed(self, error: KafkaWireError, now_ms: int) -> None:
        self.heard.append(("assignor failed", type(error.__cause__)))

    def misassigned(self, error: KafkaWireError, now_ms: int) -> None:
        self.heard.append(("misassigned", str(error)))


def test_a_follower_joins_and_learns_its_assignment() -> None:
    scene = Scene()
    scene.begin()
    assert scene.heard == [("joined", "m", 3), ("assigned", {"t"})]
    (join,) = scene.simulation.requests(JoinGroupRequest)
    assert (join.rebalance_timeout_ms, join.protocol_type, join.reason) == (20_000, "plain", "why")
    assert [each.name for each in join.protocols] == ["first", "second"]
    (sync,) = scene.simulation.requests(SyncGroupRequest)
    assert (sync.generation_id, sync.member_id, sync.protocol_name, sync.assignments) == (3, "m", "first", ())
    assert scene.rebalance.view is None
    assert not scene.rebalance.is_outdated()


def test_a_leader_waits_for_the_topics_of_the_others() -> None:
    scene = Scene()
    scene.lead(b"t", b"u")
    scene.begin()
    assert scene.protocol.views[0].partition_counts == {"t": 2, "u": 1}
    (sync,) = scene.simulation.requests(SyncGroupRequest)
    assert {each.member_id: bytes(each.assignment) for each in sync.assignments} == {"m": b"t,u", "m1": b"t,u"}
    assert scene.router.metadata.wanted == {"t", "u"}


@pytest.mark.parametrize(
    ("topics", "role"), [([], ""), ([b"t"], ", leads 1 member"), ([b"t", b"t"], ", leads 2 members")]
)
def test_the_log_says_who_joined_and_who_leads(
    topics: list[bytes], role: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafkawire.group")
    scene = Scene()
    if topics:
        scene.lead(*topics)
    scene.begin()
    assert caplog.messages == [f"group g, generation 3: joined as m{role}"]


def test_a_leader_waits_for_metadata_that_does_not_come_for_a_while_only() -> None:
    scene = Scene()
    scene.lead(b"t", b"u")
    scene.simulation.run(100)
    scene.simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    scene.begin(4_900)
    assert scene.protocol.views == []
    scene.simulation.run(200)
    assert scene.protocol.views[0].partition_counts == {"t": 2}


@pytest.mark.parametrize("grown", [{"t": [1, 1, 1], "u": [1]}, {"t": [1, 1], "u": [1, 1]}], ids=["own", "other"])
def test_a_leader_that_is_told_to_skip_the_assignment_still_watches_the_topics(grown: dict[str, list[int]]) -> None:
    """The leader watches its own topics and those that only another member reads."""
    scene = Scene()
    scene.simulation.run(100)
    scene.lead(b"t", b"u", skips=True)
    scene.begin()
    assert scene.protocol.views == []
    assert scene.simulation.requests(SyncGroupRequest)[0].assignments == ()
    scene.simulation.run(2_000)
    assert not scene.rebalance.is_outdated()
    scene.simulation.handlers[MetadataRequest] = cluster([1], grown)
    scene.router.metadata.invalidate()
    scene.simulation.run(2_000)
    assert scene.rebalance.is_outdated()


def test_a_refused_join_tells_which_id_to_join_with() -> None:
    scene = Scene()
    scene.joined_as = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="new", protocol_name="")
    scene.begin()
    assert scene.heard == [("join refused", BrokerError, "new")]


def test_a_join_may_take_as_long_as_the_slowest_member_and_no_longer() -> None:
    scene = Scene()
    scene.simulation.handlers[JoinGroupRequest] = lambda request, version: SILENT
    scene.begin(24_000)
    assert scene.heard == []
    scene.simulation.run(1_500)
    assert scene.heard == [("join refused", RequestTimedOut, "")]


def test_a_join_has_a_connection_of_its_own() -> None:
    scene = Scene()
    scene.begin()
    assert {link.purpose.value for link in scene.simulation._open} >= {"join"}
    assert scene.simulation.requests(HeartbeatRequest) == []


def test_a_refused_sync_is_reported() -> None:
    scene = Scene()
    scene.simulation.handlers[SyncGroupRequest] = lambda request, version: SyncGroupResponse(error_code=27)
    scene.begin()
    assert scene.heard[-1] == ("sync refused", BrokerError)


def test_an_assignment_that_cannot_be_read_is_none_and_names_the_leader() -> None:
    scene = Scene()
    scene.simulation.handlers[SyncGroupRequest] = lambda request, version: SyncGroupResponse(assignment=b"?")
    scene.begin()
    told = "group g, generation 3: the 1-byte assignment from leader l cannot be read: message at byte 0: it is a"
    assert scene.heard[1:] == [("misassigned", f"{told} question mark"), ("assigned", set())]


def test_a_member_that_cannot_be_read_is_named_and_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.lead(b"t", b"?")
    scene.begin()
    assert scene.heard[1:] == [("assigned", {"t"})]
    (line,) = [line for line in caplog.messages if "cannot be read" in line]
    text = "group g: the subscription of member m1 cannot be read (a question mark): it gets no partitions"
    assert line == text


@pytest.mark.parametrize(("raised", "told"), [(ValueError, ValueError), (CancelledError, LocalProtocolError)])
def test_an_assignor_that_raises_is_reported(raised: type[BaseException], told: type[Exception]) -> None:
    class Failing(PlainProtocol):
        def assign(self, protocol_name: str, subscriptions: Subscriptions, view: ClusterView) -> dict[str, bytes]:
            raise raised

    scene = Scene(Failing())
    scene.simulation.run(100)
    scene.lead(b"t")
    scene.begin()
    scene.simulation.run(10_000)
    assert scene.heard[1:] == [("assignor failed", told)]
    assert scene.simulation.requests(SyncGroupRequest) == []


def test_a_leader_of_a_group_that_it_is_not_in_is_told() -> None:
    scene = Scene()
    scene.lead()
    scene.begin()
    assert scene.heard[1:] == [("assignor failed", RemoteProtocolError)]
    assert scene.simulation.requests(SyncGroupRequest) == []


def test_a_subscription_that_cannot_be_made_is_reported() -> None:
    class Failing(PlainProtocol):
        def protocols(self, joining: Joining) -> list[tuple[str, bytes]]:
            raise KafkaWireError("no user data") from ValueError()

    scene = Scene(Failing())
    scene.begin()
    assert scene.heard == [("assignor failed", ValueError)]
    assert scene.simulation.requests(JoinGroupRequest) == []


@pytest.mark.parametrize("duration_ms", [0, 3, 5])
def test_a_cancelled_rebalance_is_not_heard_of(duration_ms: int) -> None:
    scene = Scene()
    scene.begin(duration_ms)
    heard = list(scene.heard)
    scene.rebalance.cancel()
    scene.simulation.run(60_000)
    assert scene.heard == heard


def test_a_member_tells_the_leader_what_it_was_assigned_last() -> None:
    """By then, the member has given up everything, but the sticky assignor returns its old partitions."""
    cluster = Cluster.of_classic("sticky")
    first = cluster.member("a")
    cluster.settle(first)
    had = first.reader.assigned
    cluster.settle(first, cluster.member("b"))
    join = first.simulation.requests(JoinGroupRequest)[-1]
    told = decode_subscription(bytes(join.protocols[0].metadata)).user_data
    assert told == StickyAssignor().user_data(sorted(had), 1)


def test_an_assignment_shows_that_the_coordinator_knows_the_member() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    member.simulation.latency_ms = 200
    cluster.until(lambda: member.state == "syncing")
    joined_ms = member.now_ms
    cluster.until(lambda: member.reader.assigned != frozenset())
    assert member.now_ms >= joined_ms + 100
    assert member.group.last_heartbeat_ms is not None
    assert member.group.last_heartbeat_ms >= member.now_ms - 10


@pytest.mark.parametrize("rack", [None, "r1"])
def test_racks_that_change_matter_to_a_leader_with_a_rack(rack: str | None) -> None:
    """Broker 3's replicas have a rack only while broker 3 is in the cluster."""
    group = Cluster.of_classic()
    member = group.member("a", rack=rack)
    nodes = [1, 2, 3]

    def answer(request: MetadataRequest, version: int) -> MetadataResponse:
        response = cluster(nodes, {"t": [1] * 6})(request, version)
        assert isinstance(response, MetadataResponse)
        for broker in response.brokers:
            broker.rack = f"r{broker.node_id}"
        for topic in response.topics:
            for partition in topic.partitions:
                partition.replica_nodes = [1, 2, 3]
        return response

    member.simulation.handlers[MetadataRequest] = answer
    group.settle(member)
    joins = len(member.simulation.requests(JoinGroupRequest))
    for change in (nodes.pop, lambda: nodes.append(3)):
        change()
        member.router.metadata.invalidate()
        group.run(2_000)
    assert len(member.simulation.requests(JoinGroupRequest)) - joins == (0 if rack is None else 2)
    group.settle(member)


def test_a_rebalance_after_an_absence_is_another_one() -> None:
    """The rebalance's duration does not include the time outside the group."""
    scene = Scene()
    usual = scene.simulation.handlers[JoinGroupRequest]
    scene.simulation.handlers[JoinGroupRequest] = lambda request, version: SILENT
    scene.begin(5_000)
    scene.rebalance.cancel()
    scene.rebalance.left()
    scene.simulation.run(10_000)
    scene.simulation.handlers[JoinGroupRequest] = usual
    scene.begin(20_000)
    assert scene.heard[-1] == ("assigned", {"t"})
    metrics = scene.router.metrics.read(scene.simulation.now_ms).items()
    assert next(value for name, value in metrics if name.name == "rebalance-latency-max") < 10_000
