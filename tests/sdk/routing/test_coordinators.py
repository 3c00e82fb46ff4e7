"""A coordinator is looked up when a call needs it, and is forgotten if an error or a lost connection rules it out.

Method: use the simulated cluster, with groups and transactional ids whose coordinators move. See test_router.py for
calls.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, ConnectionLost
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Coordinator, Purpose
from kafkawire.sdk.routing.coordinators import Coordinators
from kafkawire.sdk.routing.router import Router
from tests.sdk.routing.routed import heartbeat
from tests.sdk.simulation import Simulation, address, backoff, cluster, options

GROUP = Coordinator(CoordinatorType.GROUP, "orders")
TRANSACTION = Coordinator(CoordinatorType.TRANSACTION, "orders")


def answer(request: Any, version: int) -> FindCoordinatorResponse:
    """Name node 2 for groups, and node 7, which the metadata does not list, for transactional ids."""
    node = 2 if request.key_type == CoordinatorType.GROUP else 7
    if version < 4:
        return FindCoordinatorResponse(node_id=node, host=address(node).host, port=9092)
    key = request.coordinator_keys[0]
    return FindCoordinatorResponse(coordinators=[FindCoordinatorResponse.Coordinator(key, node, *address(node))])


def looked_up_by(simulation: Simulation) -> Coordinators:
    """Return separate coordinators, for which no call is waiting."""
    return Coordinators(simulation.router.submit, lambda *_: None, 60_000)


@pytest.fixture
def simulation() -> Simulation:
    simulation = Simulation(Router(options(), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {})
    simulation.handlers[FindCoordinatorRequest] = answer
    return simulation


@pytest.mark.parametrize("newest", [0, 3, 4, 6])
def test_groups_and_transactional_ids_are_told_apart(simulation: Simulation, newest: int) -> None:
    simulation.newest[ApiKey.FIND_COORDINATOR] = newest
    coordinators = looked_up_by(simulation)
    wanted = (GROUP,) if newest == 0 else (GROUP, TRANSACTION)
    for each in wanted:
        assert coordinators.find(each, simulation.now_ms) is None
    simulation.run(100)
    found = [coordinators.find(each, simulation.now_ms) for each in wanted]
    assert found == [address(2), address(7)][: len(wanted)]
    assert len(simulation.requests(FindCoordinatorRequest)) == len(wanted)


def test_what_an_error_says(simulation: Simulation) -> None:
    coordinators = looked_up_by(simulation)
    for error, forgotten in (
        (BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), False),
        (BrokerError(ErrorCode.REBALANCE_IN_PROGRESS), False),
        (BrokerError(ErrorCode.NOT_COORDINATOR), True),
        (ConnectionLost("reset"), True),
    ):
        coordinators.find(GROUP, simulation.now_ms)
        simulation.run(100)
        coordinators.note(GROUP, error)
        assert (coordinators.find(GROUP, simulation.now_ms) is None) is forgotten, error


def test_only_the_coordinators_at_an_address_are_forgotten(simulation: Simulation) -> None:
    coordinators = looked_up_by(simulation)
    for each in (GROUP, TRANSACTION):
        coordinators.find(each, simulation.now_ms)
    simulation.run(100)
    coordinators.forget_at(address(7))
    assert coordinators.find(GROUP, simulation.now_ms) == address(2)
    assert coordinators.find(TRANSACTION, simulation.now_ms) is None


def test_a_refusal_ends_the_calls_that_wait_and_no_later_one(simulation: Simulation) -> None:
    """The refusal ends waiting calls for every purpose; once those are gone, it does not fail later calls."""
    refused = FindCoordinatorResponse.Coordinator("orders", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    simulation.handlers[FindCoordinatorRequest] = lambda *_: FindCoordinatorResponse(coordinators=[refused])
    simulation.handlers[HeartbeatRequest] = lambda *_: HeartbeatResponse()
    calls = [heartbeat(GROUP, purpose=purpose) for purpose in (Purpose.GROUP, Purpose.JOIN)]
    for call in calls:
        simulation.router.submit(call, simulation.now_ms)
    simulation.run(100)
    assert ["the coordinator of group orders" in str(call.error) for call in calls] == [True, True]
    assert len(simulation.requests(FindCoordinatorRequest)) == 1
    simulation.router.submit(heartbeat(GROUP, simulation.now_ms + 2), simulation.now_ms)
    simulation.run(100)
    simulation.handlers[FindCoordinatorRequest] = answer
    later = heartbeat(GROUP)
    simulation.call(later)
    assert later.error is None


def test_trouble_is_known_while_a_look_up_goes_on(simulation: Simulation) -> None:
    absent = FindCoordinatorResponse.Coordinator("orders", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    simulation.handlers[FindCoordinatorRequest] = lambda *_: FindCoordinatorResponse(coordinators=[absent])
    coordinators = looked_up_by(simulation)
    assert (coordinators.trouble(GROUP), coordinators.knows(GROUP)) == (None, False)
    coordinators.find(GROUP, simulation.now_ms)
    simulation.run(100)
    assert "COORDINATOR_NOT_AVAILABLE" in str(coordinators.trouble(GROUP))
    simulation.handlers[FindCoordinatorRequest] = answer
    simulation.run(1_000)
    assert coordinators.trouble(GROUP) is None
    assert coordinators.knows(GROUP)
