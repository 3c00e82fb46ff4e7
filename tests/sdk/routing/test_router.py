"""Calls reach the responsible broker, are repeated when this may help, and end by their deadline.

Method: use a simulated cluster with its own clock, whose brokers are killed, stalled and contradicted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, ConnectFailed, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER, Call, Coordinator, Node, Purpose, Target
from kafkawire.sdk.routing.router import MAX_CALLS, Router
from tests.sdk.routing.routed import errors_first, heartbeat
from tests.sdk.simulation import SILENT, Simulation, address, backoff, cluster, options

GROUP = Coordinator(CoordinatorType.GROUP, "g")


@pytest.fixture
def simulation() -> Simulation:
    """A simulated cluster of nodes 1, 2 and 3 with a topic; each broker answers a heartbeat with its number."""
    simulation = Simulation(Router(options(), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2, 3], {"t": [1, 2, 3]})
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    simulation.handlers[FindCoordinatorRequest] = coordinator_is(2)
    return simulation


def coordinator_is(*nodes: int, error: int = 0) -> Callable[[Any, int], Message]:
    """Return a handler that names these nodes in turn, and then keeps naming the last one."""
    left = list(nodes)

    def answer(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        node = left.pop(0) if len(left) > 1 else left[0]
        found = FindCoordinatorResponse.Coordinator("g", node, *address(node), error_code=error)
        return FindCoordinatorResponse(coordinators=[found])

    return answer


def nodes(simulation: Simulation, kind: type[Message] = HeartbeatRequest) -> list[int]:
    """Return the brokers to which requests of a class were sent."""
    return [node for _, node, request, _ in simulation.sent if isinstance(request, kind)]


def test_a_call_reaches_each_kind_of_target(simulation: Simulation) -> None:
    simulation.handlers[MetadataRequest] = cluster([1, 2, 3], {}, controller=3)
    simulation.run(100)
    for target, expected in ((Node(2), 2), (CONTROLLER, 3), (GROUP, 2), (ANY_BROKER, 1)):
        simulation.sent.clear()
        assert isinstance(simulation.call(heartbeat(target)), HeartbeatResponse)
        assert nodes(simulation) == [expected], target


def test_a_call_waits_for_the_first_metadata(simulation: Simulation) -> None:
    simulation.call(heartbeat(CONTROLLER))
    assert simulation.requests(MetadataRequest)


def test_purposes_have_connections_of_their_own(simulation: Simulation) -> None:
    simulation.call(heartbeat(Node(1)))
    simulation.opened.clear()
    simulation.call(heartbeat(Node(1), purpose=Purpose.GROUP))
    assert [node for _, node in simulation.opened] == [1]


def test_a_retriable_error_is_tried_again_after_growing_pauses(simulation: Simulation) -> None:
    simulation.handlers[HeartbeatRequest] = errors_first(5)
    simulation.call(heartbeat(Node(1)))
    times = [time for time, _, request, _ in simulation.sent if isinstance(request, HeartbeatRequest)]
    assert [after - before - 1 for before, after in itertools.pairwise(times)] == [100, 200, 400, 800, 1_000]


@pytest.mark.parametrize(
    ("code", "more"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, {}),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {"final": {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}}),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {"retries": False}),
    ],
)
def test_what_cannot_be_tried_again_ends_at_once(simulation: Simulation, code: ErrorCode, more: Any) -> None:
    simulation.handlers[HeartbeatRequest] = errors_first(9, code)
    call = heartbeat(Node(1), **more)
    with pytest.raises(BrokerError, match=code.name):
        simulation.call(call)
    assert len(nodes(simulation)) == 1
    assert isinstance(call.result, HeartbeatResponse), "the response must be available in addition to the error"


def test_the_deadline_ends_a_call_that_is_tried_again(simulation: Simulation) -> None:
    simulation.handlers[HeartbeatRequest] = errors_first(99)
    with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        simulation.call(heartbeat(Node(1), simulation.now_ms + 1_000), duration_ms=1_000)


def test_the_deadline_ends_a_call_in_flight(simulation: Simulation) -> None:
    simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    with pytest.raises(RequestTimedOut, match="Heartbeat to node 1: there was no response in time"):
        simulation.call(heartbeat(Node(1), simulation.now_ms + 500), duration_ms=501)


def test_the_deadline_ends_a_call_without_a_broker(simulation: Simulation) -> None:
    simulation.down = {1, 2, 3}
    with pytest.raises(RequestTimedOut, match=r"no broker to send it to in time; .*node-1:9092: refused") as caught:
        simulation.call(heartbeat(ANY_BROKER, simulation.now_ms + 3_000), duration_ms=3_001)
    assert isinstance(caught.value.__cause__, ConnectFailed)


def test_a_late_response_is_dropped(simulation: Simulation) -> None:
    simulation.latency_ms = 50
    simulation.run(1_000)
    ends: list[Call] = []
    call = heartbeat(Node(1), simulation.now_ms + 30, on_done=lambda call, now_ms: ends.append(call))
    simulation.router.submit(call, simulation.now_ms)
    simulation.run(1_000)
    assert ends == [call]
    assert isinstance(call.error, RequestTimedOut)
    simulation.call(heartbeat(Node(1)))


def test_a_cancelled_call_is_forgotten(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.handlers[HeartbeatRequest] = errors_first(99)
    ends: list[Call] = []
    for wait_ms in (0, 1, 50):
        call = heartbeat(Node(1), on_done=lambda call, now_ms: ends.append(call))
        simulation.router.submit(call, simulation.now_ms)
        simulation.run(wait_ms)
        call.cancel()
        simulation.run(2_000)
    assert not ends
    assert simulation.router._unsettled == {}


def test_a_withdrawn_call_that_was_not_sent_is_never_sent(simulation: Simulation) -> None:
    simulation.run(100)
    received: list[object] = []

    def note(request: Message, version: int) -> Message:
        received.append(request)
        return HeartbeatResponse()

    simulation.handlers[HeartbeatRequest] = note
    router, now_ms = simulation.router, simulation.now_ms
    at_once, behind, first = heartbeat(Node(1)), heartbeat(Node(9)), heartbeat(Node(9))
    for call in (at_once, first, behind):
        router.submit(call, now_ms)
        if call is not first:  # it holds up the one behind it
            router.withdraw(call)
    assert [entry.call for entry in router._unsettled.values()] == [first]
    assert [entry.call for bucket in router._buckets.values() for entry in bucket.entries] == [first]
    assert router._in_flight == {}
    simulation.run(100)
    assert received == []
    simulation.call(heartbeat(Node(1)))
    assert len(received) == 1


def test_a_withdrawn_call_that_was_sent_or_waits_for_an_attempt_is_forgotten(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.handlers[HeartbeatRequest] = errors_first(99)
    ends: list[Call] = []
    for wait_ms in (1, 50):
        call = heartbeat(Node(1), on_done=lambda call, now_ms: ends.append(call))
        simulation.router.submit(call, simulation.now_ms)
        simulation.run(wait_ms)
        simulation.router.withdraw(call)
        assert simulation.router._unsettled == {}
        simulation.run(2_000)
    assert not ends
    assert simulation.router._in_flight == {}


def test_a_lost_connection_ends_what_does_not_retry(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    stays, goes = heartbeat(Node(1)), heartbeat(Node(1), retries=False)
    for call in (stays, goes):
        simulation.router.submit(call, simulation.now_ms)
    simulation.run(10)
    simulation.handlers[HeartbeatRequest] = errors_first(0)
    simulation.break_connections(1)
    assert goes.error is not None
    assert not stays.done
    simulation.run(1_000)
    assert stays.done
    assert stays.error is None


def test_connecting_is_tried_again_after_growing_pauses_that_end_with_success(simulation: Simulation) -> None:
    simulation.down = {1}
    simulation.router.submit(heartbeat(ANY_BROKER), simulation.now_ms)
    simulation.run(4_000)
    times = [time for time, _ in simulation.opened]
    pauses = [after - before - 1 for before, after in itertools.pairwise(times)]
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
    simulation.down.clear()
    simulation.run(1_500)
    simulation.break_connections(1)
    simulation.down = {1, 2, 3}
    simulation.opened.clear()
    simulation.router.submit(heartbeat(Node(1)), simulation.now_ms)
    simulation.run(350)
    times = [time for time, node in simulation.opened if node == 1]
    assert times[1] - times[0] - 1 == 200, (
        "the pauses must start over: the loss was the first failure, and the refusal the second"
    )


class Refused(ConnectFailed):
    retriable = False


def test_a_refusal_that_is_final_ends_the_calls_that_retry_too(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.down = {1, 2, 3}
    simulation.refusal = Refused
    for target in (Node(2), GROUP):
        with pytest.raises(Refused, match="node-2:9092"):
            simulation.call(heartbeat(target), duration_ms=10)
    simulation.break_connections(1, Refused(address(1), "no longer"))
    with pytest.raises(Refused):
        simulation.call(heartbeat(ANY_BROKER), duration_ms=10_000)


def test_a_login_that_is_refused_is_not_put_to_the_next_broker() -> None:
    simulation = Simulation(Router(options(servers=f"{address(1)},{address(2)},{address(3)}"), backoff()))
    simulation.down = {1, 2, 3}
    simulation.refusal = Refused
    with pytest.raises(Refused, match="node-1:9092"):
        simulation.call(heartbeat(ANY_BROKER))
    simulation.run(50)
    assert [node for _, node in simulation.opened] == [1]
    with pytest.raises(Refused):
        simulation.call(heartbeat(ANY_BROKER))
    assert len(simulation.opened) == 2, "a later call must get its own attempt"


def test_a_login_that_is_refused_ends_what_waits_for_another_broker_too() -> None:
    simulation = Simulation(Router(options(servers=f"{address(1)},{address(2)},{address(3)}"), backoff()))
    simulation.stalled = {1}
    simulation.down = {2, 3}
    simulation.refusal = Refused
    with pytest.raises(Refused, match="node-2:9092"):
        simulation.call(heartbeat(ANY_BROKER), duration_ms=1_100)
    assert [node for _, node in simulation.opened] == [1, 2]


def test_start_ends_with_the_reasons_once_every_bootstrap_server_has_failed() -> None:
    servers = f"{address(1)},{address(2)}"
    simulation = Simulation(Router(options(servers=servers), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {})
    simulation.down = {1, 2}
    with pytest.raises(ConnectFailed, match=r"any broker: .*node-1:9092.*; .*node-2:9092") as caught:
        simulation.call(heartbeat(ANY_BROKER, retries=False))
    assert caught.value.retriable
    assert caught.value.address == servers.replace(",", ", ")
    assert isinstance(caught.value.__cause__, ConnectFailed)
    assert caught.value.__cause__.address in servers
    simulation.down = {1}
    simulation.call(heartbeat_ok(simulation))


@pytest.mark.parametrize(
    ("phases", "expected"), [(["tcp"], "tcp"), (["tls", "tls"], "tls"), (["dns", "tcp"], None), ([None, "tcp"], None)]
)
def test_the_phase_in_which_every_bootstrap_server_failed(phases: list[str | None], expected: str | None) -> None:
    """Programs and people look up the phase, so it must not be lost when the failures are summed up."""
    servers = [address(node) for node in range(1, len(phases) + 1)]
    failed = iter(phases)
    simulation = Simulation(Router(options(servers=",".join(map(str, servers))), backoff()))
    simulation.down = {1, 2}
    simulation.refusal = lambda where, reason: ConnectFailed(where, reason, next(failed))
    with pytest.raises(ConnectFailed, match="any broker: ") as caught:
        simulation.call(heartbeat(ANY_BROKER, retries=False))
    assert caught.value.phase == expected
    assert caught.value.address == ", ".join(map(str, servers))


def heartbeat_ok(simulation: Simulation) -> Call:
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    return heartbeat(ANY_BROKER, simulation.now_ms + 10_000)


def test_a_broker_that_does_not_answer_the_handshake_does_not_hold_up_the_others() -> None:
    simulation = Simulation(Router(options(servers=f"{address(1)},{address(2)}"), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {})
    simulation.stalled = {1}
    simulation.call(heartbeat_ok(simulation), duration_ms=1_100)
    assert nodes(simulation) == [2]


def test_bootstrap_servers_are_asked_again_when_no_known_broker_can_be_reached(simulation: Simulation) -> None:
    simulation.handlers[MetadataRequest] = cluster([2, 3], {})
    simulation.run(100)
    simulation.handlers[MetadataRequest] = cluster([4], {})
    for node in (1, 2, 3):
        simulation.break_connections(node)
    simulation.down = {2, 3}
    simulation.call(heartbeat(Node(4)))
    assert nodes(simulation) == [4]


def test_a_request_to_bootstrap_again_is_obeyed(simulation: Simulation) -> None:
    simulation.handlers[MetadataRequest] = cluster([2, 3], {})
    simulation.run(100)
    refused = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    simulation.handlers[2, MetadataRequest] = simulation.handlers[3, MetadataRequest] = lambda *_: refused
    simulation.handlers[MetadataRequest] = cluster([4], {})
    simulation.router.metadata.invalidate()
    simulation.run(2_000)
    assert list(simulation.router.metadata.brokers) == [4]


def test_the_coordinator_is_looked_up_once_and_again_when_it_moved(simulation: Simulation) -> None:
    simulation.handlers[FindCoordinatorRequest] = coordinator_is(2, 3)
    for _ in range(3):
        simulation.call(heartbeat(GROUP))
    assert nodes(simulation, FindCoordinatorRequest) == [1]
    assert nodes(simulation) == [2, 2, 2]
    simulation.handlers[2, HeartbeatRequest] = lambda *_: HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    simulation.call(heartbeat(GROUP))
    assert nodes(simulation) == [2, 2, 2, 2, 3]


def test_calls_share_a_look_up(simulation: Simulation) -> None:
    calls = [heartbeat(GROUP) for _ in range(5)]
    for call in calls:
        simulation.router.submit(call, simulation.now_ms)
    simulation.run(100)
    assert all(call.done and call.error is None for call in calls)
    assert len(simulation.requests(FindCoordinatorRequest)) == 1


def test_the_coordinator_is_looked_up_again_when_its_connection_ends(simulation: Simulation) -> None:
    simulation.handlers[FindCoordinatorRequest] = coordinator_is(2, 3)
    simulation.call(heartbeat(GROUP))
    simulation.break_connections(2)
    simulation.call(heartbeat(GROUP))
    assert nodes(simulation) == [2, 3]


@pytest.mark.parametrize(("code", "asked"), [(ErrorCode.GROUP_AUTHORIZATION_FAILED, 1), (ErrorCode.NOT_COORDINATOR, 4)])
def test_a_refused_look_up_ends_the_calls_that_wait_for_it(simulation: Simulation, code: ErrorCode, asked: int) -> None:
    simulation.handlers[FindCoordinatorRequest] = coordinator_is(-1, error=code)
    with pytest.raises(BrokerError, match=code.name):
        simulation.call(heartbeat(GROUP, simulation.now_ms + 1_000), duration_ms=70_000)
    assert len(simulation.requests(FindCoordinatorRequest)) >= asked


def test_a_throttled_client_waits(simulation: Simulation) -> None:
    simulation.call(heartbeat(Node(1)))
    simulation.handlers[HeartbeatRequest] = lambda *_: HeartbeatResponse(throttle_time_ms=700)
    simulation.call(heartbeat(Node(1)))
    before_ms = simulation.now_ms
    simulation.call(heartbeat(Node(1)))
    assert 700 <= simulation.now_ms - before_ms <= 705
    assert simulation.sent[-1][0] - before_ms >= 699


def test_a_short_throttle_does_not_end_a_long_one(simulation: Simulation) -> None:
    simulation.call(heartbeat(Node(1)))
    times_ms = [5_000, 100]
    simulation.handlers[HeartbeatRequest] = lambda *_: HeartbeatResponse(
        throttle_time_ms=times_ms.pop(0) if times_ms else 0
    )
    begun_ms = simulation.now_ms
    for _ in range(2):
        simulation.router.submit(heartbeat(Node(1)), begun_ms)
    simulation.run(10)
    assert times_ms == []
    simulation.call(heartbeat(Node(1)))
    assert simulation.sent[-1][0] - begun_ms >= 5_000


def test_an_idle_connection_is_closed_and_opened_again(simulation: Simulation) -> None:
    router = Router(options(connections_max_idle_ms=5_000), backoff())
    simulation = Simulation(router)
    simulation.handlers[MetadataRequest] = cluster([1], {})
    simulation.handlers[HeartbeatRequest] = lambda *_: HeartbeatResponse()
    simulation.call(heartbeat(Node(1)))
    simulation.run(20_000)
    simulation.opened.clear()
    simulation.call(heartbeat(Node(1)))
    assert len(simulation.opened) == 1
    assert len(router._links.all) == 1


def test_links_to_brokers_that_are_gone_are_forgotten() -> None:
    router = Router(options(connections_max_idle_ms=5_000), backoff())
    simulation = Simulation(router)
    for node in range(1, 30):
        simulation.handlers[MetadataRequest] = cluster([node], {})
        router.metadata.invalidate()
        simulation.run(10_000)
    assert len(router._links.all) <= 3


def test_a_node_that_the_cluster_does_not_list(simulation: Simulation) -> None:
    with pytest.raises(ConnectFailed, match="node 9: the cluster does not include it"):
        simulation.call(heartbeat(Node(9), retries=False))
    with pytest.raises(RequestTimedOut, match="does not include"):
        simulation.call(heartbeat(Node(9), simulation.now_ms + 500))


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_node_that_the_cluster_does_not_list_is_not_waited_for_until_the_deadline(is_answered: bool) -> None:
    """Without a response to Metadata, it is not known whether the cluster lists it."""
    router = Router(options(request_timeout_ms=1_000), backoff())
    simulation = Simulation(router)
    simulation.handlers[MetadataRequest] = cluster([1], {})
    simulation.run(100)
    if not is_answered:
        simulation.handlers[MetadataRequest] = lambda *_: SILENT
    begun_ms = simulation.now_ms
    call = heartbeat(Node(9), begun_ms + 60_000)
    call.absent_ms = 5_000
    router.submit(call, begun_ms)
    simulation.run(4_900)
    assert not call.done
    simulation.run(3_000)
    assert call.done == is_answered
    if not is_answered:
        simulation.handlers[MetadataRequest] = cluster([1], {})
        simulation.run(40_000)
    assert isinstance(call.error, ConnectFailed)
    assert "node 9: the cluster does not include it" in str(call.error)


def test_reach_opens_a_link_and_returns_it_once_it_takes_calls(simulation: Simulation) -> None:
    assert simulation.router.reach(2, simulation.now_ms) is None
    simulation.run(100)
    assert simulation.router.reach(2, simulation.now_ms) is None
    simulation.run(10)
    link = simulation.router.reach(2, simulation.now_ms)
    assert link is not None
    assert link.address == address(2)
    link.congested = True
    assert simulation.router.reach(2, simulation.now_ms) is None


def test_a_request_without_a_response_is_done_once_it_is_written(simulation: Simulation) -> None:
    simulation.handlers[ProduceRequest] = lambda *_: None
    call = Call(Node(1), lambda _: (ProduceRequest(acks=0), 3), None, simulation.now_ms + 1_000, lambda *_: None)
    simulation.router.submit(call, simulation.now_ms)
    simulation.run(50)
    assert call.done
    assert call.result is None
    assert call.error is None


def test_calls_to_one_target_keep_their_order(simulation: Simulation) -> None:
    simulation.handlers[HeartbeatRequest] = lambda *_: HeartbeatResponse()
    ends: list[int] = []
    for number in range(250):
        call = heartbeat(Node(1), on_done=lambda call, now_ms, number=number: ends.append(number))
        simulation.router.submit(call, simulation.now_ms)
    simulation.run(100)
    assert ends == list(range(250))


def test_too_many_calls_are_refused(simulation: Simulation) -> None:
    simulation.down = {1}
    for _ in range(MAX_CALLS):
        simulation.router.submit(heartbeat(Node(1)), simulation.now_ms)
    with pytest.raises(LocalProtocolError, match=f"too many calls: {MAX_CALLS} have not ended yet"):
        simulation.router.submit(heartbeat(Node(1)), simulation.now_ms)


def test_closing_ends_every_call_and_refuses_more(simulation: Simulation) -> None:
    simulation.run(100)
    simulation.handlers[HeartbeatRequest] = lambda *_: SILENT
    calls = [heartbeat(target) for target in (Node(1), Node(9), GROUP, ANY_BROKER)]
    for call in calls:
        simulation.router.submit(call, simulation.now_ms)
    simulation.run(20)
    simulation.close()
    assert all(isinstance(call.error, Closed) for call in calls)
    with pytest.raises(Closed):
        simulation.router.submit(heartbeat(Node(1)), simulation.now_ms)
    simulation.run(60_000)


def test_work_does_not_grow_with_the_calls_that_wait(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation.run(100)
    simulation.handlers[HeartbeatRequest] = lambda *_: SILENT
    for _ in range(10_000):
        simulation.router.submit(heartbeat(Node(1), simulation.now_ms + 10**9), simulation.now_ms)
    simulation.run(10)
    looked_at: list[Target] = []
    choose = Router._choose

    def counted(self: Router, target: Target, *arguments: Any) -> Any:
        looked_at.append(target)
        return choose(self, target, *arguments)

    monkeypatch.setattr(Router, "_choose", counted)
    simulation.router.poll(simulation.now_ms)
    assert looked_at == [Node(1)], "one target's calls must be checked together"
