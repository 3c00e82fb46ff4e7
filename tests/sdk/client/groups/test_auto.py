"""The newest protocol that the coordinator offers is used, and everything reaches the one in use.

Method: members that may be of either protocol, beside coordinators that offer one or both.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire.sdk.client.groups.auto import AutoGroup
from kafkawire.sdk.client.groups.classic import ClassicGroup
from kafkawire.sdk.client.groups.consumer_group import ConsumerGroup
from kafkawire.sdk.client.groups.protocol import GroupProtocol, GroupSettings
from kafkawire.sdk.client.groups.subscription import Subscription
from kafkawire.sdk.errors import BrokerError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.client.groups.members import Cluster, Member, classic, consumer, refusal


def auto(member: Member, settings: GroupSettings, subscription: Subscription) -> GroupProtocol:
    """Make a member of either protocol."""

    def make(kind: Any) -> Any:
        def made(subscription: Subscription, on_failure: Any) -> GroupProtocol:
            former, member.fails = member.fails, on_failure  # type: ignore[method-assign]  # for this one call
            try:
                group: GroupProtocol = kind(member, settings, subscription)
            finally:
                member.fails = former  # type: ignore[method-assign]  # as it was
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
