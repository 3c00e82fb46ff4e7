"""A refusal that is not final is raised by one read, and the membership continues.

Method: run members with simulated coordinators that refuse some requests, and with a reader that records the errors
that reads would raise.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import AuthenticationFailed, BrokerError
from kafkawire.sdk.groups.commit_outcome import Committed
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.members import Cluster, Fault, Member, refusal
from tests.thorough import sampled

#: More refusals than any test gets.
ALWAYS = 1_000


def kinds(member: Member) -> list[str]:
    """Return the names of a member's events."""
    return [type(event).__name__ for event in member.listener.events]


def refuse(
    kind: type[Message], code: ErrorCode, left: list[int], when: Callable[[Message], bool] | None = None
) -> Fault:
    """Return a fault that refuses requests of a class the number of times in `left`, which it counts down."""

    def fault(node: int, request: Message) -> Message | None:
        if left[0] and isinstance(request, kind) and (when is None or when(request)):
            left[0] -= 1
            return refusal(request, code)
        return None

    return fault


def codes(member: Member) -> list[ErrorCode]:
    """Return the codes of the errors that reads would raise."""
    return [error.code for error in member.reader.errors if isinstance(error, BrokerError)]


def heartbeats(member: Member) -> int:
    return len(member.simulation.requests(ConsumerGroupHeartbeatRequest))


# Classic groups.


@pytest.mark.parametrize("request_kind", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize(
    "code",
    sampled(
        [
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        4,
    ),
)
def test_after_a_refusal_the_member_joins_again_once_a_read_has_raised_it(
    request_kind: type[Message], code: ErrorCode
) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    left = [3]
    cluster.fault = refuse(request_kind, code, left)
    for count in (2, 1, 0):
        cluster.run(60_000)
        assert codes(member) == [code]
        assert left == [count], "there must be one attempt for each read that raised the error"
        member.reader.errors.clear()
    cluster.settle(member)
    assert member.failures == []


@pytest.mark.parametrize(
    ("make", "kind"),
    [(Cluster.of_classic, JoinGroupRequest), (Cluster.of_consumers, ConsumerGroupHeartbeatRequest)],
)
def test_a_subscription_after_a_refused_join_counts(make: Callable[[], Cluster], kind: type[Message]) -> None:
    cluster = make()
    member = cluster.member("a")
    cluster.fault = refuse(kind, ErrorCode.GROUP_AUTHORIZATION_FAILED, [1])
    cluster.until(lambda: member.reader.errors != [])
    member.group.subscribe(Subscription(["t"]), member.now_ms)
    cluster.settle(member)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_heartbeat_that_is_refused_is_repeated(code: ErrorCode) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.settle(member)
    left = [3]
    cluster.fault = refuse(HeartbeatRequest, code, left)
    cluster.until(lambda: left == [2])
    cluster.run(10)
    assert isinstance(member.group.trouble, BrokerError)
    assert member.group.trouble.code is code
    cluster.run(10_000)
    assert member.group.trouble is None
    assert (left, kinds(member), member.reader.errors, member.failures) == ([0], ["Assigned"], [], [])
    cluster.settle(member)


def test_a_session_of_refused_heartbeats_loses_the_partitions() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a", session_timeout_ms=6_000)
    cluster.settle(member)
    cluster.fault = refuse(HeartbeatRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, [ALWAYS])
    took_ms = cluster.until(lambda: member.reader.errors != [])
    assert 5_000 < took_ms < 8_000
    assert (kinds(member)[-1], member.reader.assigned, member.state) == ("Lost", frozenset(), "ready")
    sent = len(member.simulation.requests(HeartbeatRequest))
    assert sent < 30, "with pauses in between"
    joins = len(member.simulation.requests(JoinGroupRequest))
    cluster.run(60_000)
    assert len(member.simulation.requests(JoinGroupRequest)) == joins
    cluster.fault = lambda node, request: None
    member.reader.errors.clear()
    cluster.settle(member)


def test_a_coordinator_that_tells_of_a_rebalance_was_heard_from() -> None:
    """The listener takes longer than the session timeout to give up partitions; a single refusal then loses nothing."""
    cluster = Cluster.of_classic()
    member = cluster.member("a", session_timeout_ms=6_000)
    cluster.settle(member)
    member.listener.is_slow = True
    other = cluster.member("b")
    cluster.run(8_000)
    left = [1]
    cluster.fault = refuse(HeartbeatRequest, ErrorCode.UNKNOWN_SERVER_ERROR, left)
    cluster.until(lambda: left == [0])
    member.listener.is_slow = False
    member.listener.handle(member.now_ms)
    cluster.settle(member, other)
    assert kinds(member) == ["Assigned", "Revoking", "Assigned"]


# KIP-848 groups.


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_member_goes_on_reading_after_a_refusal_and_the_next_subscription_counts(code: ErrorCode) -> None:
    cluster = Cluster.of_consumers({"t": 6, "u": 3})
    member = cluster.member("a")
    cluster.settle(member)

    def names_u(request: Message) -> bool:
        return isinstance(request, ConsumerGroupHeartbeatRequest) and "u" in (request.subscribed_topic_names or ())

    cluster.fault = refuse(ConsumerGroupHeartbeatRequest, code, [ALWAYS], names_u)
    member.group.subscribe(Subscription(["t", "u"]), member.now_ms)
    sent = heartbeats(member)
    cluster.run(10_000)
    assert codes(member) == [code]
    assert (member.state, len(member.reader.handed_out), kinds(member)) == ("member", 6, ["Assigned"])
    assert 10 <= heartbeats(member) - sent <= 20, "with pauses in between"
    member.reader.errors.clear()
    cluster.run(2_000)
    assert len(member.reader.errors) == 1, "the application must be told again"
    member.group.subscribe(Subscription(["t"]), member.now_ms)
    member.reader.errors.clear()
    cluster.settle(member)
    assert (member.reader.errors, member.failures, kinds(member)) == ([], [], ["Assigned"])


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED])
def test_a_refused_join_waits_for_the_application(code: ErrorCode) -> None:
    cluster = Cluster.of_consumers()
    cluster.fault = refuse(ConsumerGroupHeartbeatRequest, code, [2])
    member = cluster.member("a")
    cluster.run(60_000)
    assert (heartbeats(member), len(member.reader.errors)) == (1, 1)
    member.reader.errors.clear()
    cluster.run(60_000)
    assert (heartbeats(member), len(member.reader.errors)) == (2, 1)
    member.reader.errors.clear()
    cluster.settle(member)
    assert member.failures == []


def test_a_member_that_the_group_refuses_loses_its_partitions() -> None:
    cluster = Cluster.of_consumers()
    member = cluster.member("a")
    cluster.settle(member)
    cluster.fault = refuse(ConsumerGroupHeartbeatRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, [1])
    cluster.until(lambda: member.reader.errors != [])
    assert (kinds(member)[-1], member.reader.assigned, member.state) == ("Lost", frozenset(), "joining")
    sent = heartbeats(member)
    cluster.run(60_000)
    assert heartbeats(member) == sent
    member.reader.errors.clear()
    cluster.settle(member)


# Refused logins.


def refuse_logins(member: Member) -> None:
    """End a member's connections, and refuse its logins from now on."""
    member.simulation.down, member.simulation.refusal = {1, 2, 3}, AuthenticationFailed
    for node in (1, 2, 3):
        member.simulation.break_connections(node)


@pytest.mark.parametrize("make", [Cluster.of_classic, Cluster.of_consumers])
def test_a_login_that_is_refused_for_a_moment_does_not_end_a_membership(make: Callable[[], Cluster]) -> None:
    cluster = make()
    member = cluster.member("a")
    cluster.settle(member)
    refuse_logins(member)
    cluster.run(2_000)
    member.reader.errors.clear()
    member.simulation.down = set()
    cluster.settle(member)
    assert (kinds(member), member.failures) == (["Assigned"], [])
    outcomes = member.commit({TopicPartition("t", 0): OffsetAndMetadata(1)})
    cluster.until(lambda: outcomes != [])
    assert isinstance(outcomes[0], Committed)


@pytest.mark.parametrize("make", [Cluster.of_classic, Cluster.of_consumers])
def test_a_member_whose_logins_are_refused_for_longer_than_a_session_joins_again(make: Callable[[], Cluster]) -> None:
    cluster = make()
    member = cluster.member("a")
    cluster.settle(member)
    refuse_logins(member)
    cluster.run(60_000)
    assert {type(error) for error in member.reader.errors} == {AuthenticationFailed}
    outcomes = member.commit({TopicPartition("t", 0): OffsetAndMetadata(1)}, timeout_ms=40_000)
    cluster.run(45_000)
    assert outcomes != []
    assert len(member.simulation.opened) < 20
    member.simulation.down = set()
    cluster.until(lambda: member.reader.errors.clear() is None and member.state in ("stable", "member"))
    cluster.settle(member)
    assert member.failures == []
