"""A request to the controller has exactly one outcome, and reaches the controller even if it has moved.

Method: use simulated brokers, one of which is the controller; they answer, refuse, die, pause, answer late or send
damaged data. This broker may also be the controller. Count outcomes until long after the deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kafkawire.reference_broker.cluster.controller_client import PENDING_MAX, ControllerClient
from kafkawire.reference_broker.cluster.links import Done
from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    ConnectFailed,
    ConnectionLost,
    LocalProtocolError,
    RequestTimedOut,
    UnsupportedVersion,
)
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.cluster.linked import Bench, Outcomes
from tests.sdk.simulation import SILENT, Later, address, backoff

OWN = 9
TIMEOUT_MS = 10_000
RESPONSE_MS = 3_000
LONG_MS = 100_000


class Asking:
    """Brokers 1 and 2, and the client of broker 9."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.know(1, 2)
        self.simulation = self.bench.simulation
        self.own: list[Done] = []
        self.client = ControllerClient(
            OWN,
            self.bench.links,
            lambda message, version, done: self.own.append(done),
            self.bench.later,
            lambda: self.simulation.now_ms,
            backoff(),
            RESPONSE_MS,
        )

    def answers(self, node: int, *codes: int) -> None:
        """Let a broker answer with these codes in turn, and then repeat the last one."""
        left = list(codes)
        self.simulation.handlers[node, AllocateProducerIdsRequest] = lambda request, version: response(
            left.pop(0) if len(left) > 1 else left[0]
        )

    def handle(self, node: int, handler: Callable[[Any, int], Any]) -> None:
        self.simulation.handlers[node, AllocateProducerIdsRequest] = handler

    def ask(self, timeout_ms: int = TIMEOUT_MS, *, repeats: bool = True) -> Outcomes:
        outcomes = Outcomes()
        self.client.ask(AllocateProducerIdsRequest(OWN, 1), outcomes, timeout_ms, repeats=repeats)
        assert outcomes.all == [], "the callback must not run before `ask` returns"
        return outcomes


def response(code: int = ErrorCode.NONE) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code, producer_id_start=7_000)


@pytest.fixture
def asking() -> Asking:
    asking = Asking()
    asking.answers(1, ErrorCode.NONE)
    asking.answers(2, ErrorCode.NONE)
    asking.client.moved(1)
    return asking


@pytest.mark.parametrize(
    ("request_", "answer", "version"),
    [
        (AllocateProducerIdsRequest(OWN, 1), AllocateProducerIdsResponse(), None),
        (AlterPartitionRequest(OWN, 1), AlterPartitionResponse(), None),
        (ControlledShutdownRequest(OWN, 1), ControlledShutdownResponse(), 3),
    ],
    ids=["AllocateProducerIds", "AlterPartition", "ControlledShutdown"],
)
def test_the_response_of_the_controller_is_the_outcome(
    asking: Asking, request_: Message, answer: Message, version: int | None
) -> None:
    asking.simulation.handlers[1, type(request_)] = lambda request, version: answer
    outcomes = Outcomes()
    asking.client.ask(request_, outcomes, TIMEOUT_MS, version)
    asking.simulation.run(LONG_MS)
    assert type(outcomes.one) is type(answer)
    ((_, node, _, sent),) = asking.simulation.sent
    assert (node, version) in ((1, sent), (1, None))


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_other_error_codes_are_left_to_the_caller(asking: Asking, code: ErrorCode) -> None:
    asking.answers(1, code)
    outcomes = asking.ask()
    asking.simulation.run(LONG_MS)
    assert (outcomes.one.error_code, asking.bench.nodes()) == (code, [1])


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH])
def test_not_controller_is_repeated_with_growing_pauses(asking: Asking, code: ErrorCode) -> None:
    """The former controller learns that it has been deposed before this broker does."""
    asking.answers(1, *[code] * 3, ErrorCode.NONE)
    outcomes = asking.ask()
    asking.simulation.run(LONG_MS)
    assert outcomes.one.error_code == ErrorCode.NONE
    times = [time for time, _, _, _ in asking.simulation.sent]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert [pause // 100 for pause in pauses] == [1, 2, 4]


def test_not_controller_to_the_end_is_no_response(asking: Asking) -> None:
    asking.answers(1, ErrorCode.NOT_CONTROLLER)
    outcomes = asking.ask()
    asking.simulation.run(TIMEOUT_MS)
    assert isinstance(outcomes.one, RequestTimedOut)
    assert isinstance(outcomes.one.__cause__, BrokerError)
    sent = len(asking.simulation.sent)
    asking.simulation.run(LONG_MS)
    assert (len(outcomes.all), len(asking.simulation.sent)) == (1, sent)


@pytest.mark.parametrize("reason", ["reset by peer", "data from the broker is damaged"])
def test_a_controller_that_loses_the_connection_is_asked_again(asking: Asking, reason: str) -> None:
    lost: list[Any] = [ConnectionLost(f"connection to {address(1)} was lost: {reason}"), response()]
    asking.handle(1, lambda request, version: lost.pop(0))
    outcomes = asking.ask()
    asking.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)
    assert asking.bench.nodes() == [1, 1]


def test_a_controller_that_restarts_on_another_address(asking: Asking) -> None:
    asking.handle(1, lambda request, version: SILENT)
    asking.answers(11, ErrorCode.NONE)
    outcomes = asking.ask()
    asking.simulation.run(100)
    asking.simulation.down = {1}
    asking.simulation.break_connections(1)
    asking.simulation.run(500)
    asking.bench.know(1, 2, moved={1: 11})
    asking.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)
    assert asking.bench.nodes() == [1, 11]


def test_a_paused_controller_is_asked_again_until_the_deadline(asking: Asking) -> None:
    asking.handle(1, lambda request, version: SILENT)
    outcomes = asking.ask()
    asking.simulation.run(TIMEOUT_MS - 1)
    assert outcomes.all == []
    asking.simulation.run(1)
    assert isinstance(outcomes.one, RequestTimedOut)
    assert len(asking.simulation.sent) == TIMEOUT_MS // RESPONSE_MS + 1
    asking.simulation.run(LONG_MS)
    assert len(outcomes.all) == 1


def test_a_request_follows_a_controller_that_moves_while_the_former_is_paused(asking: Asking) -> None:
    late = Later()
    asking.handle(1, lambda request, version: late)
    outcomes = asking.ask()
    asking.simulation.run(100)
    asking.client.moved(1)
    asking.simulation.run(100)
    assert asking.bench.nodes() == [1], "the controller has not moved"
    asking.client.moved(2)
    asking.simulation.run(100)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)
    assert asking.bench.nodes() == [1, 2]
    late.answer(response())
    asking.simulation.run(LONG_MS)
    assert len(outcomes.all) == 1, "the former controller's response arrives too late"


@pytest.mark.parametrize("trouble", ["none", "other", "down", "lost", "paused"])
def test_a_request_that_is_not_repeated_ends_with_the_first_failure(asking: Asking, trouble: str) -> None:
    if trouble == "none":
        asking.client.moved(None)
    elif trouble == "other":
        asking.answers(1, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE)
    elif trouble == "down":
        asking.simulation.down = {1}
    elif trouble == "lost":
        asking.handle(1, lambda request, version: ConnectionLost("reset by peer"))
    else:
        asking.handle(1, lambda request, version: SILENT)
    outcomes = asking.ask(repeats=False)
    asking.simulation.run(RESPONSE_MS + 2 if trouble == "paused" else 100)
    assert isinstance(outcomes.one, BrokerError | ConnectionLost | ConnectFailed | RequestTimedOut)
    asking.client.moved(2)
    asking.simulation.run(LONG_MS)
    assert len(outcomes.all) == 1
    assert len(asking.simulation.sent) == (trouble in ("other", "lost", "paused"))


def test_a_request_waits_while_there_is_no_controller(asking: Asking) -> None:
    asking.client.moved(None)
    found, late = asking.ask(), asking.ask(timeout_ms=500)
    asking.simulation.run(1_000)
    assert isinstance(late.one, RequestTimedOut)
    assert "no controller is known" in str(late.one)
    assert (found.all, asking.simulation.sent) == ([], [])
    asking.client.moved(2)
    asking.simulation.run(LONG_MS)
    assert isinstance(found.one, AllocateProducerIdsResponse)
    assert asking.bench.nodes() == [2]


def test_a_pause_ends_when_the_controller_moves(asking: Asking) -> None:
    asking.answers(1, ErrorCode.NOT_CONTROLLER)
    outcomes = asking.ask()
    asking.simulation.run(3_000)
    asking.client.moved(2)
    asking.simulation.run(5)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)


def test_a_pause_that_was_ended_does_not_end_again(asking: Asking) -> None:
    """Otherwise, a second attempt would abandon the first, which is about to be answered."""
    asking.answers(1, ErrorCode.NOT_CONTROLLER)
    late = Later()
    asking.handle(2, lambda request, version: late)
    outcomes = asking.ask()
    asking.simulation.run(2_000)
    asking.client.moved(2)
    asking.simulation.run(2_900)
    late.answer(response())
    asking.simulation.run(5)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)
    assert [node for _, node, *_ in asking.simulation.sent].count(2) == 1


def test_this_broker_is_asked_in_the_process_if_it_is_the_controller(asking: Asking) -> None:
    asking.client.moved(OWN)
    outcomes = asking.ask()
    assert asking.own == [], "the callback runs in a later turn of the loop"
    asking.simulation.run(10)
    asking.own.pop()(response(ErrorCode.NOT_CONTROLLER))
    assert outcomes.all == []
    asking.simulation.run(150)
    first = asking.own.pop()
    first(response())
    first(response())
    asking.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)
    assert asking.simulation.sent == []


def test_the_own_controller_that_resigns_without_an_answer(asking: Asking) -> None:
    asking.client.moved(OWN)
    outcomes = asking.ask()
    asking.simulation.run(10)
    asking.client.moved(2)
    asking.simulation.run(10)
    asking.own.pop()(response(ErrorCode.NOT_CONTROLLER))
    asking.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, AllocateProducerIdsResponse)


@pytest.mark.parametrize("defect", [KeyError("a bug"), LocalProtocolError("a limit")], ids=["defect", "limit"])
def test_an_error_that_repeating_cannot_mend_is_the_outcome(asking: Asking, defect: Exception) -> None:
    asking.client.moved(OWN)
    outcomes = asking.ask()
    asking.simulation.run(10)
    asking.own.pop()(defect)
    assert outcomes.one is defect


def test_a_controller_without_the_api_ends_the_request(asking: Asking) -> None:
    asking.simulation.newest = {ApiKey.ALLOCATE_PRODUCER_IDS: -1}
    outcomes = asking.ask()
    asking.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, UnsupportedVersion)
    assert "AllocateProducerIds" in str(outcomes.one)


@pytest.mark.parametrize("when_ms", [0, 100, LONG_MS])
def test_a_request_that_is_abandoned_has_no_outcome(asking: Asking, when_ms: int) -> None:
    asking.handle(1, lambda request, version: SILENT)
    outcomes = Outcomes()
    cancel = asking.client.ask(AllocateProducerIdsRequest(OWN, 1), outcomes, TIMEOUT_MS)
    asking.simulation.run(when_ms)
    cancel()
    cancel()
    sent = len(asking.simulation.sent)
    asking.client.moved(2)
    asking.simulation.run(LONG_MS)
    assert len(outcomes.all) == (when_ms == LONG_MS)
    assert len(asking.simulation.sent) == sent


def test_requests_have_a_limit(asking: Asking) -> None:
    asking.client.moved(None)
    waiting = [asking.ask() for _ in range(PENDING_MAX)]
    refused = asking.ask()
    asking.simulation.run(1)
    assert isinstance(refused.one, LocalProtocolError)
    asking.client.moved(1)
    asking.simulation.run(1_000)
    assert {type(each.one) for each in waiting} == {AllocateProducerIdsResponse}
    accepted = asking.ask()
    asking.simulation.run(LONG_MS)
    assert isinstance(accepted.one, AllocateProducerIdsResponse), "requests that have ended are not counted"


def test_closing_ends_what_waits_and_refuses_more(asking: Asking) -> None:
    asking.handle(1, lambda request, version: SILENT)
    under_way = asking.ask()
    asking.simulation.run(100)
    error = Closed("the broker is stopping")
    asking.client.close(error)
    refused = asking.ask()
    asking.simulation.run(LONG_MS)
    assert [under_way.all, refused.all] == [[error], [error]]
