"""A request over a link has exactly one outcome, whatever happens to its broker.

Method: use simulated brokers that answer, stop, move, pause, answer late or send damaged data, and count outcomes after
everything has settled.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.cluster.links import PENDING_MAX, Links
from kafkawire.sdk.errors import Closed, ConnectFailed, ConnectionLost, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.routing.call import CONTROLLER, Node, Purpose, Target
from tests.reference_broker.cluster.linked import Bench, Outcomes
from tests.sdk.simulation import SILENT, Later, address

#: Longer than every timeout in these tests.
LONG_MS = 100_000

TIMEOUT_MS = 2_000

FIRST = Node(1)


@pytest.fixture
def bench() -> Bench:
    """Brokers that answer heartbeats."""
    bench = Bench()
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    return bench


def ask(bench: Bench, target: Target = FIRST, **more: Any) -> Outcomes:
    outcomes = Outcomes()
    given = {"timeout_ms": TIMEOUT_MS, "purpose": Purpose.CONTROL} | more
    bench.links.ask(target, HeartbeatRequest("g"), outcomes, **given)
    assert outcomes.all == [], "the callback must not run before `ask` returns"
    return outcomes


def test_a_response_is_the_outcome(bench: Bench) -> None:
    links: Links = bench.links
    links.know(bench.addresses(1, 2), 2)
    woken = bench.wakes
    assert woken == 1
    first, second = ask(bench), ask(bench, CONTROLLER)
    assert bench.wakes == woken + 2
    bench.simulation.run(LONG_MS)
    assert isinstance(first.one, HeartbeatResponse)
    assert isinstance(second.one, HeartbeatResponse)
    assert bench.nodes() == [1, 2]


def test_a_removed_version_is_sent_as_named(bench: Bench) -> None:
    """The broker is not asked whether it supports the API, which Kafka 4.0 removed."""
    bench.simulation.handlers[StopReplicaRequest] = lambda request, version: StopReplicaResponse()
    bench.know(1)
    outcomes = Outcomes()
    request = StopReplicaRequest(controller_id=1)
    bench.links.ask(Node(1), request, outcomes, version=3, timeout_ms=TIMEOUT_MS, purpose=Purpose.CONTROL)
    bench.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, StopReplicaResponse)
    assert [version for _, _, _, version in bench.simulation.sent] == [3]


@pytest.mark.parametrize("retries", [False, True])
def test_a_broker_that_dies_while_a_request_is_under_way(bench: Bench, retries: bool) -> None:
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1)
    outcomes = ask(bench, retries=retries)
    bench.simulation.run(100)
    bench.simulation.down = {1}
    bench.simulation.break_connections(1)
    bench.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, RequestTimedOut if retries else ConnectionLost)
    assert bench.nodes() == [1]


def test_a_broker_that_refuses_connections(bench: Bench) -> None:
    bench.simulation.down = {1}
    bench.know(1)
    outcomes = ask(bench)
    bench.simulation.run(100)
    assert isinstance(outcomes.one, ConnectFailed)
    bench.simulation.down.clear()
    again = ask(bench)
    bench.simulation.run(LONG_MS)
    assert isinstance(again.one, HeartbeatResponse)


@pytest.mark.parametrize("retries", [False, True])
def test_a_broker_that_restarts_on_another_address(bench: Bench, retries: bool) -> None:
    bench.simulation.handlers[1, HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1, 2)
    ask(bench, Node(2))
    outcomes = ask(bench, retries=retries)
    bench.simulation.run(100)
    opened = len(bench.simulation.opened)
    bench.know(1, 2, moved={1: 11})
    bench.simulation.run(500)
    assert isinstance(outcomes.one, HeartbeatResponse if retries else ConnectionLost)
    again, other = ask(bench), ask(bench, Node(2))
    bench.simulation.run(LONG_MS)
    assert isinstance(again.one, HeartbeatResponse)
    assert isinstance(other.one, HeartbeatResponse)
    assert sorted(bench.nodes()[-2:]) == [2, 11]
    assert len(bench.simulation.opened) == opened + 1, "the connection to the other broker stays open"


def test_two_brokers_that_exchange_their_addresses(bench: Bench) -> None:
    """A connection leads to the process that had the address when the connection was opened."""
    bench.know(1, 2)
    for node in (1, 2):
        ask(bench, Node(node))
    bench.simulation.run(100)
    bench.know(1, 2, moved={1: 2, 2: 1})
    bench.simulation.run(100)
    assert bench.simulation.open_links() == 0
    ask(bench, Node(1))
    bench.simulation.run(100)
    assert bench.nodes() == [1, 2, 2]


def test_a_broker_that_registers_again_at_its_address(bench: Bench) -> None:
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1)
    outcomes = ask(bench)
    bench.simulation.run(100)
    bench.links.drop(7)
    bench.simulation.run(10)
    assert (outcomes.all, bench.simulation.open_links()) == ([], 1), "there is no such broker"
    woken = bench.wakes
    bench.links.drop(1)
    assert bench.wakes == woken + 1
    bench.simulation.run(10)
    assert isinstance(outcomes.one, ConnectionLost)
    assert bench.simulation.open_links() == 0


def test_a_broker_that_is_paused(bench: Bench) -> None:
    """The broker accepts the request but does not answer it; requests to other brokers are not affected."""
    bench.simulation.handlers[1, HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1, 2)
    outcomes, other = ask(bench), ask(bench, Node(2))
    bench.simulation.run(TIMEOUT_MS - 100)
    assert (outcomes.all, len(other.all)) == ([], 1)
    bench.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, RequestTimedOut)


def test_an_answer_that_comes_late_changes_nothing(bench: Bench) -> None:
    late = Later()
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: late
    bench.know(1)
    outcomes = ask(bench)
    bench.simulation.run(TIMEOUT_MS)
    assert isinstance(outcomes.one, RequestTimedOut)
    late.answer(HeartbeatResponse())
    bench.simulation.run(LONG_MS)
    assert len(outcomes.all) == 1


def test_a_broker_that_answers_with_damage(bench: Bench) -> None:
    """The transport closes such a connection; every request on it is lost."""
    damage = ConnectionLost(f"connection to {address(1)} was given up: data from the broker is damaged")
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: damage
    bench.know(1)
    first, second = ask(bench), ask(bench)
    bench.simulation.run(LONG_MS)
    assert [type(first.one), type(second.one)] == [ConnectionLost, ConnectionLost]


def test_a_request_to_an_unknown_broker_waits_for_it(bench: Bench) -> None:
    found, missing = ask(bench, Node(3)), ask(bench, Node(4))
    bench.simulation.run(500)
    bench.know(3)
    bench.simulation.run(100)
    assert isinstance(found.one, HeartbeatResponse)
    assert isinstance(missing.one, ConnectFailed)
    never = ask(bench, Node(5))
    bench.simulation.run(LONG_MS)
    assert isinstance(never.one, RequestTimedOut)


def test_a_controller_that_moves(bench: Bench) -> None:
    bench.know(1, 2, controller_id=1)
    ask(bench, CONTROLLER)
    bench.simulation.run(100)
    bench.know(1, 2)
    waiting = ask(bench, CONTROLLER)
    bench.simulation.run(100)
    assert waiting.all == []
    bench.know(1, 2, controller_id=2)
    bench.simulation.run(LONG_MS)
    assert isinstance(waiting.one, HeartbeatResponse)
    assert bench.nodes() == [1, 2]


@pytest.mark.parametrize("when_ms", [0, 100, LONG_MS])
def test_a_request_that_is_abandoned_has_no_outcome(bench: Bench, when_ms: int) -> None:
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1)
    outcomes = Outcomes()
    cancel = bench.links.ask(Node(1), HeartbeatRequest("g"), outcomes, timeout_ms=TIMEOUT_MS, purpose=Purpose.CONTROL)
    bench.simulation.run(when_ms)
    before = len(outcomes.all)
    cancel()
    cancel()
    bench.simulation.run(LONG_MS)
    assert len(outcomes.all) == before == (when_ms == LONG_MS)


def test_requests_to_one_target_have_a_limit_and_others_do_not_suffer(bench: Bench) -> None:
    bench.simulation.handlers[1, HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1, 2)
    cancels = [
        bench.links.ask(Node(1), HeartbeatRequest("g"), Outcomes(), timeout_ms=TIMEOUT_MS, purpose=Purpose.DATA)
        for _ in range(PENDING_MAX)
    ]
    refused, other = ask(bench), ask(bench, Node(2))
    unheard = Outcomes()
    bench.links.ask(Node(1), HeartbeatRequest("g"), unheard, timeout_ms=TIMEOUT_MS, purpose=Purpose.DATA)()
    bench.simulation.run(10)
    assert isinstance(refused.one, LocalProtocolError)
    assert isinstance(other.one, HeartbeatResponse)
    assert unheard.all == []
    cancels.pop()()
    accepted = ask(bench)
    bench.simulation.run(LONG_MS)
    assert isinstance(accepted.one, RequestTimedOut)
    freed = ask(bench)
    bench.simulation.run(LONG_MS)
    assert isinstance(freed.one, RequestTimedOut), "requests that have ended are not counted"


def test_the_end_of_the_router_is_the_outcome(bench: Bench) -> None:
    bench.simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    bench.know(1)
    under_way = ask(bench)
    bench.simulation.run(100)
    bench.simulation.close()
    refused = ask(bench)
    bench.simulation.run(LONG_MS)
    assert [type(under_way.one), type(refused.one)] == [Closed, Closed]
