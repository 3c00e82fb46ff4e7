"""A member takes every edge of its state table, in a classic group and in a KIP-848 group.

Method: with a simulated coordinator, bring a member to the state where an edge begins, in a stable generation if the
state allows it; then cause the transition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.groups import classic_group, consumer_group
from kafkawire.sdk.groups.protocol import Assigned, Event
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.edges import taken
from tests.sdk.groups.members import Cluster, Member, refusal
from tests.sdk.simulation import SILENT

Classic = classic_group.State
Consumer = consumer_group.State


def answering(faults: dict[type[Message], Any]) -> Callable[[int, Message], Any]:
    """Return a fault that answers some requests with an error code, or not at all."""

    def fault(node: int, request: Message) -> Any:
        answer = faults.get(type(request))
        return refusal(request, answer) if isinstance(answer, ErrorCode) else answer

    return fault


def go_idle(cluster: Cluster, member: Member) -> None:
    """Let the member leave because the application does not read."""
    member.reader.last_handed_out_ms = cluster.now_ms - 40_000
    cluster.run(100)


def be_slow_with_an_assignment(member: Member, event: Event) -> None:
    """Handle the revocation before a join immediately, but leave the assignment after it unhandled."""
    member.listener.is_slow = isinstance(event, Assigned)


def classic_in(state: Classic) -> tuple[Cluster, Member, dict[type[Message], Any]]:
    """Return a member in the given state, and its coordinator's faults."""
    cluster = Cluster.of_classic(topics={"t": 3, "u": 3})
    member = cluster.member("a")
    faults: dict[type[Message], Any] = {}
    cluster.fault = answering(faults)
    if state is Classic.OUTSIDE:
        return cluster, member, faults
    cluster.settle(member, count=3)
    if state is not Classic.STABLE:
        faults |= {
            Classic.READY: {JoinGroupRequest: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
            Classic.JOINING: {JoinGroupRequest: SILENT},
            Classic.SYNCING: {SyncGroupRequest: SILENT},
        }.get(state, {})
        member.group.subscribe(Subscription(["u"]), member.now_ms)
        member.listener.is_slow = state is Classic.PREPARING
        if state is Classic.ADOPTING:
            member.listener.on_event = lambda event, now_ms: be_slow_with_an_assignment(member, event)
        elif state is Classic.READY:
            cluster.run(2_000)  # by then, its pauses are longer
        cluster.until(lambda: member.state == state.value)
    assert member.state == state.value
    return cluster, member, faults


@pytest.mark.parametrize(("before", "after"), list(classic_group.MEMBERSHIP_EDGES))
def test_every_edge_of_a_classic_member(before: Classic, after: Classic) -> None:
    cluster, member, faults = classic_in(before)
    with taken(classic_group.MEMBERSHIP_EDGES) as steps:
        match after:
            case Classic.OUTSIDE if before is not Classic.OUTSIDE:
                go_idle(cluster, member)
            case Classic.OUTSIDE | Classic.STABLE:
                member.stop()
            case Classic.PREPARING if before is not Classic.OUTSIDE:
                faults[HeartbeatRequest] = ErrorCode.UNKNOWN_MEMBER_ID
                cluster.run(3_000)
            case Classic.READY if before is Classic.JOINING:
                faults[JoinGroupRequest] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                cluster.run(60_000)
            case _:
                faults.clear()
                member.listener.on_event = None
                member.listener.is_slow = False
                member.listener.handle(member.now_ms)
                cluster.run(60_000)
    assert (before, after) in steps


@pytest.mark.parametrize(("before", "after"), list(consumer_group.MEMBERSHIP_EDGES))
def test_every_edge_of_a_consumer(before: Consumer, after: Consumer) -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    faults: dict[type[Message], Any] = {}
    cluster.fault = answering(faults)
    if before is Consumer.JOINING:
        faults[ConsumerGroupHeartbeatRequest] = SILENT
        cluster.until(lambda: member.state == "joining")
    elif before is not Consumer.OUTSIDE:
        cluster.settle(member)
    if before is Consumer.FENCED:
        member.listener.is_slow = True
        faults[ConsumerGroupHeartbeatRequest] = ErrorCode.FENCED_MEMBER_EPOCH
        cluster.until(lambda: member.state == "fenced")
    assert member.state == before.value
    with taken(consumer_group.MEMBERSHIP_EDGES) as steps:
        if after is Consumer.FENCED:
            faults[ConsumerGroupHeartbeatRequest] = ErrorCode.FENCED_MEMBER_EPOCH
            cluster.run(1_000)
        elif after is Consumer.OUTSIDE and before is not Consumer.OUTSIDE:
            go_idle(cluster, member)
        elif after is Consumer.OUTSIDE:
            member.stop()
        else:
            faults.clear()
            member.listener.handle(member.now_ms)
            cluster.run(60_000)
    assert (before, after) in steps
