"""A router that is given its brokers asks for nothing, and sends calls only to listed brokers.

Method: use a simulated cluster that fails the test if it is asked for metadata; give lists at chosen times, and let
calls be answered, lost or left waiting.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    Closed,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    LocalProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER, Call, Node, Purpose, Target
from kafkawire.sdk.routing.given_metadata import WAITING_MAX, GivenMetadata
from kafkawire.sdk.routing.metadata import ClusterBroker
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.owner import Owner
from tests.sdk.routing.routed import PeerOptions, heartbeat
from tests.sdk.simulation import SILENT, Simulation, address, backoff

OWNER = Owner("broker", logging.getLogger("kafkawire.broker"), logging.getLogger("kafkawire.broker"))


class Told:
    """A router that is given its brokers, and the simulated brokers."""

    def __init__(self) -> None:
        self.given = GivenMetadata()
        options = PeerOptions(bootstrap_servers=(), connections_max_idle_ms=60_000)
        self.simulation = Simulation(Router(options, backoff(), refresh=self.given, owner=OWNER))
        self.simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()

    def tell(self, *nodes: int, controller_id: int | None = None, moved: dict[int, int] | None = None) -> None:
        """Give a list of brokers to the router; `moved` names brokers that have another node's address."""
        places = moved or {}
        brokers = [ClusterBroker(node, address(places.get(node, node))) for node in nodes]
        self.given.set(brokers, controller_id, self.simulation.now_ms)

    def submit(self, target: Target, **more: Any) -> Call:
        call = heartbeat(target, **more)
        self.simulation.router.submit(call, self.simulation.now_ms)
        return call

    def nodes(self) -> list[int]:
        """Return the brokers to which requests were sent."""
        return [node for _, node, _, _ in self.simulation.sent]


@pytest.fixture
def told() -> Told:
    return Told()


def test_calls_reach_listed_brokers_and_nothing_is_asked(told: Told) -> None:
    told.tell(1, 2, 3, controller_id=3)
    for target, expected in ((Node(2), 2), (CONTROLLER, 3), (ANY_BROKER, 2)):
        told.simulation.sent.clear()
        told.simulation.call(heartbeat(target))
        assert told.nodes() == [expected], target
    told.simulation.run(3_600_000)
    assert len(told.simulation.sent) == 1, "the list must never become stale"


@pytest.mark.parametrize("target", [ANY_BROKER, CONTROLLER, Node(1)])
def test_without_a_known_broker_calls_wait_for_a_list(told: Told, target: Target) -> None:
    """Without a bootstrap server or a listed broker, no link can be opened."""
    call = told.submit(target)
    told.simulation.run(5_000)
    assert not call.done
    told.tell(1, controller_id=1)
    told.simulation.run(10)
    assert (call.done, call.error, told.nodes()) == (True, None, [1])


@pytest.mark.parametrize("target", [ANY_BROKER, CONTROLLER, Node(1)])
def test_without_a_known_broker_calls_end_by_their_deadline(told: Told, target: Target) -> None:
    call = told.submit(target, deadline_ms=3_000)
    told.simulation.run(2_000)
    assert isinstance(call.error, RequestTimedOut)


def test_a_broker_that_the_next_list_lacks_ends_calls_that_do_not_retry(told: Told) -> None:
    patient, impatient = told.submit(Node(2)), told.submit(Node(2), retries=False)
    told.simulation.run(1_000)
    assert not impatient.done, "the next list may contain the broker"
    told.tell(1)
    told.simulation.run(10)
    assert isinstance(impatient.error, ConnectFailed)
    assert "does not include it" in str(impatient.error)
    assert not patient.done
    told.tell(1, 2)
    told.simulation.run(10)
    assert (patient.done, patient.error) == (True, None)


def test_a_call_in_the_ms_of_a_list_waits_for_the_next_one(told: Told) -> None:
    told.tell(1)
    call = told.submit(Node(2), retries=False)
    told.simulation.run(1_000)
    assert not call.done
    told.tell(1, 2)
    told.simulation.run(10)
    assert (call.done, call.error) == (True, None)


def test_calls_follow_a_controller_that_moves(told: Told) -> None:
    told.tell(1, 2, controller_id=1)
    told.simulation.call(heartbeat(CONTROLLER))
    told.tell(1, 2, controller_id=None)
    call = told.submit(CONTROLLER)
    told.simulation.run(500)
    assert not call.done
    told.tell(1, 2, controller_id=2)
    told.simulation.run(10)
    assert (call.error, told.nodes()) == (None, [1, 2])


def test_a_lost_call_is_repeated_at_the_new_address(told: Told) -> None:
    told.tell(1)
    told.simulation.handlers[1, HeartbeatRequest] = lambda request, version: SILENT
    patient, impatient = told.submit(Node(1)), told.submit(Node(1), retries=False)
    told.simulation.run(100)
    told.tell(1, moved={1: 11})
    told.simulation.router.drop(address(1))
    told.simulation.run(500)
    assert isinstance(impatient.error, ConnectionLost)
    assert (patient.error, told.nodes()) == (None, [1, 1, 11])


def test_a_link_that_is_dropped_while_it_opens_is_closed_once_it_is_open(told: Told) -> None:
    simulation = told.simulation
    told.tell(1)
    call = told.submit(Node(1))
    simulation.latency_ms = 50
    simulation.run(10)
    assert len(simulation.opened) == 1
    simulation.router.drop(address(1))
    simulation.run(30)
    assert len(simulation.opened) == 2, "the call must open a new link"
    simulation.run(200)
    assert (call.error, told.nodes(), simulation.open_links()) == (None, [1], 1)


def test_the_backoff_of_a_dropped_link_is_forgotten(told: Told) -> None:
    simulation = told.simulation
    simulation.down = {1}
    told.tell(1)
    call = told.submit(Node(1))
    simulation.run(10_000)
    attempts = len(simulation.opened)
    simulation.down.clear()
    simulation.router.drop(address(1))
    simulation.run(5)
    assert (len(simulation.opened), call.done) == (attempts + 1, True)


def test_each_purpose_has_its_own_connection(told: Told) -> None:
    told.tell(1)
    purposes = (Purpose.DATA, Purpose.CONTROL, Purpose.REPLICATION, Purpose.MARKERS)
    for purpose in (*purposes, *purposes):
        told.simulation.call(heartbeat(Node(1), purpose=purpose))
    assert len(told.simulation.opened) == len(purposes)


def test_waiting_for_a_refresh_ends_with_the_next_list_or_with_the_router(told: Told) -> None:
    outcomes: list[KafkaWireError | None] = []
    told.simulation.router.refresh(outcomes.append)
    told.simulation.run(1_000)
    assert outcomes == []
    told.tell(1)
    assert outcomes == [None]
    told.simulation.router.refresh(outcomes.append)
    told.simulation.close()
    assert isinstance(outcomes[1], Closed)


def test_few_may_wait_for_a_list() -> None:
    given = GivenMetadata()
    for _ in range(WAITING_MAX):
        given.request(lambda error: None)
    with pytest.raises(LocalProtocolError, match="too many callers"):
        given.request(lambda error: None)


def test_errors_and_log_lines_name_the_owner(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    simulation = told.simulation
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse(throttle_time_ms=5_000)
    told.tell(1)
    with caplog.at_level(logging.INFO):
        simulation.call(heartbeat(Node(1), deadline_ms=100_000))
    (line,) = caplog.records
    assert line.name == "kafkawire.broker"
    assert "throttles this broker" in line.getMessage()
    assert simulation.router.throttling(0).startswith("; this broker exceeds a quota")
    simulation.close()
    with pytest.raises(Closed, match="the broker was closed"):
        told.submit(Node(1))
