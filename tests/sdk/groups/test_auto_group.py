"""A member uses the newest protocol that the coordinator offers, and passes every call on to that protocol.

Method: let members that can use either protocol join coordinators that offer one or both.
"""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, UnsupportedVersion
from kafkawire.sdk.groups.auto_group import AutoGroup
from kafkawire.sdk.groups.classic_group import ClassicGroup
from kafkawire.sdk.groups.consumer_group import ConsumerGroup, State
from kafkawire.sdk.groups.protocol import Event, GroupMetadata, GroupProtocol, GroupSettings
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.groups.members import Cluster, Member, classic, consumer, refusal


def auto(member: Member, settings: GroupSettings, subscription: Subscription) -> GroupProtocol:
    """Create a member that can use either protocol."""

    def make(kind: Any) -> Any:
        def made(subscription: Subscription, on_failure: Any) -> GroupProtocol:
            former, member.fails = member.fails, on_failure  # type: ignore[method-assign]  # for this one call
            try:
                group: GroupProtocol = kind(member, settings, subscription)
            finally:
                member.fails = former  # type: ignore[method-assign]  # restored
            return group

        return made

    return AutoGroup(make(consumer()), make(classic("range")), subscription, member.fails)


def chosen(member: Member) -> type:
    group: Any = member.group
    return type(group._group)


def settle(cluster: Cluster, member: Member) -> None:
    cluster.until(lambda: len(member.reader.handed_out) == 6)


def refuse(code: ErrorCode) -> Any:
    def fault(node: int, request: Message) -> Message | None:
        return refusal(request, code) if isinstance(request, ConsumerGroupHeartbeatRequest) else None

    return fault


def test_kip_848_is_used_if_it_is_offered() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", make=auto)
    settle(cluster, member)
    assert chosen(member) is ConsumerGroup
    assert member.group.is_current(1)
    assert member.group.last_heartbeat_ms is not None
    stopped = member.stop()
    cluster.until(lambda: stopped.done)
    assert member.group.due_ms(cluster.now_ms) is None


def test_everything_reaches_the_protocol_in_use() -> None:
    used = create_autospec(ConsumerGroup, instance=True)
    used.last_heartbeat_ms, used.failure, used.state = None, Closed("over"), State.JOINING
    group = AutoGroup(lambda subscription, on_failure: used, Mock(), Subscription(["t"]), Mock())
    assert (group.last_heartbeat_ms, group.failure, group.state) == (None, used.failure, State.JOINING)
    calls: dict[str, tuple[object, ...]] = {
        "start": (1,),
        "subscribe": (Subscription(["u"]), 2),
        "acknowledge": (Event(frozenset(), 1), 3),
        "sign": (),
        "is_current": (7,),
        "rejected": (GroupMetadata("g"), used.failure, 4),
        "stop": (5, Promise[None](), 6),
        "poll": (8,),
        "due_ms": (9,),
        "fail": (used.failure, 10),
    }
    for name, given in calls.items():
        result, method = getattr(group, name)(*given), getattr(used, name)
        method.assert_called_once_with(*given)
        assert result in (method.return_value, None)
    assert group.due_ms(11) is used.due_ms.return_value
    assert group.is_current(7) is used.is_current.return_value
    assert group.sign() is used.sign.return_value


@pytest.mark.parametrize("last", ["stop", "fail"])
def test_a_member_that_is_at_its_end_does_not_begin_with_the_other_protocol(last: str) -> None:
    failures, classic_group = Mock(), Mock()
    used = create_autospec(ConsumerGroup, instance=True)
    told: list[Any] = []

    def make(subscription: Subscription, on_failure: Any) -> GroupProtocol:
        told.append(on_failure)
        used.last_heartbeat_ms = None
        group: GroupProtocol = used
        return group

    group = AutoGroup(make, classic_group, Subscription(["t"]), failures)
    getattr(group, last)(*((5, Promise[None](), 6) if last == "stop" else (Closed("over"), 6)))
    error = BrokerError(ErrorCode.UNSUPPORTED_VERSION)
    told[0](error, 7)
    classic_group.assert_not_called()
    failures.assert_called_once_with(error, 7)


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND])
def test_the_classic_protocol_is_used_if_it_is_not(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkawire.group")
    cluster = Cluster.of_classic()
    cluster.kafka.handlers[ConsumerGroupHeartbeatRequest] = None
    member = cluster.member("a", make=auto)
    for node in (1, 2, 3):
        member.simulation.handlers[node, ConsumerGroupHeartbeatRequest] = lambda request, version: refusal(
            request, code
        )
    member.group.subscribe(Subscription(["t", "u"]), member.now_ms)
    settle(cluster, member)
    assert chosen(member) is ClassicGroup
    assert member.failures == []
    assert member.group.failure is None
    signature = member.group.sign()
    assert signature is not None
    assert signature.member_id == "member-1"
    assert sum("does not offer KIP-848" in message and code.name in message for message in caplog.messages) == 1


def test_a_broker_that_does_not_know_kip_848_makes_it_classic() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a", make=auto)
    group: Any = member.group
    group._group._refused(UnsupportedVersion("ConsumerGroupHeartbeat"), member.now_ms)
    settle(cluster, member)
    assert chosen(member) is ClassicGroup


def test_another_error_ends_the_membership() -> None:
    cluster = Cluster.of_consumers()
    cluster.fault = refuse(ErrorCode.UNSUPPORTED_ASSIGNOR)
    member = cluster.member("a", make=auto)
    cluster.until(lambda: member.failures != [])
    assert chosen(member) is ConsumerGroup
    assert isinstance(member.group.failure, BrokerError)


def test_a_member_that_has_joined_stays_with_its_protocol() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", make=auto)
    settle(cluster, member)
    cluster.run(1_000)
    cluster.fault = refuse(ErrorCode.GROUP_ID_NOT_FOUND)
    cluster.until(lambda: member.failures != [])
    assert chosen(member) is ConsumerGroup


def test_a_member_that_was_stopped_does_not_change_its_protocol() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a", make=auto)
    stopped = member.stop()
    group: Any = member.group
    group._group._fail(BrokerError(ErrorCode.GROUP_ID_NOT_FOUND), member.now_ms)
    cluster.run(1_000)
    assert stopped.done
    assert chosen(member) is ConsumerGroup
