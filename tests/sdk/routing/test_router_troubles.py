"""A router knows why a broker or a coordinator cannot be reached, and says so even after it has ended.

Method: use a simulated cluster whose brokers are down.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, ConnectFailed, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Coordinator, Node, Target
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import NextPoll
from tests.sdk.routing.routed import heartbeat
from tests.sdk.simulation import SILENT, Simulation, address, backoff, cluster, options

GROUP = Coordinator(CoordinatorType.GROUP, "g")


@pytest.fixture
def simulation() -> Simulation:
    """A simulated cluster of nodes 1 and 2."""
    simulation = Simulation(Router(options(servers="node-1:9092,node-2:9092"), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"t": [1, 2]})
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    return simulation


def beating(simulation: Simulation, target: Target, next_poll: NextPoll | None = None) -> Call:
    """Submit a heartbeat."""
    deadline_ms = simulation.now_ms + 60_000
    call = Call(target, lambda _: (HeartbeatRequest(), None), HeartbeatResponse, deadline_ms, lambda *_: None)
    if next_poll is not None:
        call.next_poll = next_poll
    simulation.router.submit(call, simulation.now_ms)
    return call


def test_the_trouble_of_one_broker_is_its_own(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.down.add(2)
    for node in (1, 2):
        beating(simulation, Node(node))
    simulation.run(1_000)
    assert isinstance(simulation.router.trouble(2), ConnectFailed)
    assert simulation.router.trouble(1) is None
    assert simulation.router.trouble(3) is None, "the node is unknown"
    assert simulation.router.trouble() is None, "not all brokers are down"


def test_nobody_can_be_reached_if_all_are_down(simulation: Simulation) -> None:
    assert simulation.router.trouble() is None, "nothing has been tried yet"
    simulation.down |= {1, 2}
    simulation.run(5_000)
    assert isinstance(simulation.router.trouble(), ConnectFailed)
    simulation.down.clear()
    simulation.run(5_000)
    assert simulation.router.trouble() is None


def test_the_trouble_of_a_coordinator(simulation: Simulation) -> None:
    codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3

    def find(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        kind = FindCoordinatorResponse.Coordinator
        code = codes.pop() if codes else 0
        return FindCoordinatorResponse(coordinators=[kind("g", 1, *address(1), error_code=code)])

    simulation.handlers[FindCoordinatorRequest] = find
    call = beating(simulation, GROUP)
    simulation.run(50)
    assert not simulation.router.knows(GROUP)
    trouble = simulation.router.coordinator_trouble(GROUP)
    assert isinstance(trouble, BrokerError)
    assert trouble.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    simulation.run(5_000)
    assert call.error is None
    assert simulation.router.knows(GROUP)
    assert simulation.router.coordinator_trouble(GROUP) is None


def test_a_refresh_after_the_end_or_at_the_end_fails(simulation: Simulation) -> None:
    told: list[KafkaWireError | None] = []
    simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    simulation.router.refresh(told.append)
    simulation.run(10)
    assert told == []
    simulation.close()
    assert len(told) == 1
    simulation.router.refresh(told.append)
    assert [type(error) for error in told] == [Closed, Closed]


def test_a_response_that_frees_a_link_has_a_turn_for_those_that_wait(simulation: Simulation) -> None:
    simulation.run(100)
    alone = beating(simulation, Node(1), NextPoll.NONE)
    simulation.run(100)
    assert alone.next_poll is NextPoll.NONE
    throttled = HeartbeatResponse(throttle_time_ms=50)
    simulation.handlers[HeartbeatRequest] = lambda request, version: throttled
    first = beating(simulation, Node(1), NextPoll.NONE)
    simulation.run(10)
    assert first.next_poll is NextPoll.SOON
    second = beating(simulation, Node(1), NextPoll.NONE)
    simulation.run(20)
    assert second.result is None, "the broker is throttling this client"
    simulation.run(100)
    assert isinstance(second.result, HeartbeatResponse)


def test_any_broker(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.down.add(1)
    simulation.break_connections(1)
    deadline_ms = simulation.now_ms + 60_000
    call = Call(ANY_BROKER, lambda _: (HeartbeatRequest(), None), HeartbeatResponse, deadline_ms, lambda *_: None)
    simulation.router.submit(call, simulation.now_ms)
    simulation.run(5_000)
    assert isinstance(call.result, HeartbeatResponse)


def test_any_broker_is_the_one_with_the_least_to_do(simulation: Simulation) -> None:
    simulation.run(100)
    for node in (1, 2):
        beating(simulation, Node(node))
    simulation.run(100)
    simulation.handlers[1, HeartbeatRequest] = lambda request, version: SILENT
    beating(simulation, Node(1))
    simulation.run(10)
    call = beating(simulation, ANY_BROKER)
    simulation.run(10)
    assert isinstance(call.result, HeartbeatResponse)


def test_a_call_fails_once_every_broker_has_been_tried_since_it_was_made(simulation: Simulation) -> None:
    """One broker refuses immediately, and the other after a while; a call made in between waits for both."""
    simulation.down.add(1)
    simulation.stalled.add(2)
    ends: list[tuple[int, int]] = []

    def ask(made_ms: int) -> None:
        call = Call(
            ANY_BROKER,
            lambda _: (HeartbeatRequest(), None),
            HeartbeatResponse,
            made_ms + 60_000,
            lambda call, now_ms: ends.append((made_ms, now_ms)),
            retries=False,
        )
        simulation.router.submit(call, made_ms)

    for _ in range(30):
        ask(simulation.now_ms)
        simulation.run(997)
    simulation.run(30_000)
    assert len(ends) == 30
    refused_ms = [at_ms for at_ms, node in simulation.opened if node == 1]
    assert all(any(made_ms <= at_ms <= end_ms for at_ms in refused_ms) for made_ms, end_ms in ends)


THROTTLED = "this client exceeds a quota and was throttled by node-{}:9092 for {} ms"


@pytest.mark.parametrize("target", [Node(1), ANY_BROKER, GROUP], ids=["node", "any", "coordinator"])
def test_a_call_that_a_throttling_broker_held_up_says_so(simulation: Simulation, target: Target) -> None:
    coordinator = FindCoordinatorResponse.Coordinator("g", 1, *address(1))
    simulation.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
        coordinators=[coordinator]
    )
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse(throttle_time_ms=90_000)
    simulation.run(100)
    beating(simulation, Node(1))
    simulation.run(100)
    simulation.down.add(2)
    simulation.break_connections(2)
    call = beating(simulation, target)
    simulation.run(70_000)
    assert isinstance(call.error, RequestTimedOut)
    assert str(call.error).endswith(THROTTLED.format(1, 90_000))


def test_a_call_that_another_broker_does_not_answer_blames_no_quota(simulation: Simulation) -> None:
    simulation.handlers[1, HeartbeatRequest] = lambda request, version: HeartbeatResponse(throttle_time_ms=90_000)
    simulation.run(100)
    beating(simulation, Node(1))
    simulation.run(100)
    simulation.handlers[2, HeartbeatRequest] = lambda request, version: SILENT
    call = beating(simulation, Node(2))
    simulation.run(70_000)
    assert "quota" not in str(call.error)


class Refused(ConnectFailed):
    """A broker does not trust this client."""

    retriable = False


def test_a_refusal_of_one_broker_ends_no_call_while_another_throttles(simulation: Simulation) -> None:
    """The call waits for the throttling broker, and no broker that refused the login is tried for it."""
    simulation.handlers[1, HeartbeatRequest] = lambda request, version: HeartbeatResponse(throttle_time_ms=5_000)
    simulation.run(100)
    simulation.refusal = Refused
    simulation.down.add(2)
    simulation.break_connections(2)
    refused = beating(simulation, Node(2))
    simulation.run(1_000)
    assert isinstance(refused.error, Refused)
    simulation.run(1_000)
    tried = len(simulation.opened)
    beating(simulation, Node(1))
    simulation.run(100)
    call = beating(simulation, ANY_BROKER)
    simulation.run(4_000)
    assert not call.done
    assert len(simulation.opened) == tried
    simulation.run(1_000)
    assert isinstance(call.result, HeartbeatResponse)


def test_another_broker_is_tried_while_one_throttles(simulation: Simulation) -> None:
    simulation.handlers[1, HeartbeatRequest] = lambda request, version: HeartbeatResponse(throttle_time_ms=5_000)
    simulation.run(100)
    beating(simulation, Node(1))
    simulation.run(100)
    call = beating(simulation, ANY_BROKER)
    simulation.run(100)
    assert isinstance(call.result, HeartbeatResponse)


def test_throttling_that_was_over_before_is_not_to_blame(simulation: Simulation) -> None:
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse(throttle_time_ms=500)
    simulation.run(100)
    beating(simulation, Node(1))
    simulation.run(1)
    throttled_ms = simulation.now_ms
    assert simulation.router.throttling(throttled_ms, 1).endswith(THROTTLED.format(1, 500))
    assert simulation.router.throttling(throttled_ms, 2) == ""
    assert simulation.router.throttling(throttled_ms + 500) == ""


def test_a_call_that_ends_between_two_attempts_to_log_in_says_why_it_had_to_wait(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.refusal = Refused
    simulation.down = {1, 2}
    for node in (1, 2):
        simulation.break_connections(node)
    simulation.run(500)
    assert isinstance(simulation.router.last_refusal, Refused)
    for target in (ANY_BROKER, Node(1)):
        call = heartbeat(target, simulation.now_ms + 100)
        simulation.router.submit(call, simulation.now_ms)
        simulation.run(101)
        assert isinstance(call.error, RequestTimedOut)
        assert "there was no broker to send it to in time; cannot connect to node-" in str(call.error)
        assert isinstance(call.error.__cause__, Refused)
    simulation.down = set()
    simulation.run(2_000)
    assert simulation.router.last_refusal is None
