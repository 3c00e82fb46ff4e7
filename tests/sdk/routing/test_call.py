"""A call ends once, and its string form describes it."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER, Call, Coordinator, Node, Target


def call(ends: list[tuple[Call, int]], target: Target = ANY_BROKER) -> Call:
    """Return a call that records its end."""
    return Call(
        target,
        lambda _: (HeartbeatRequest(), None),
        HeartbeatResponse,
        1_000,
        lambda call, now_ms: ends.append((call, now_ms)),
    )


def test_it_ends_once() -> None:
    ends: list[tuple[Call, int]] = []
    one = call(ends)
    response = HeartbeatResponse()
    one.settle(response, None, 5)
    one.settle(None, Closed("late"), 6)
    assert ends == [(one, 5)]
    assert (one.result, one.error, one.done) == (response, None, True)


def test_a_cancelled_call_tells_nobody() -> None:
    ends: list[tuple[Call, int]] = []
    one = call(ends)
    one.cancel()
    one.settle(None, Closed("late"), 6)
    assert ends == []
    assert one.done


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (ANY_BROKER, "Heartbeat to any broker"),
        (CONTROLLER, "Heartbeat to the controller"),
        (Node(3), "Heartbeat to node 3"),
        (Coordinator(CoordinatorType.TRANSACTION, "x"), "Heartbeat to the coordinator of transaction x"),
    ],
)
def test_it_says_what_it_is(target: Target, text: str) -> None:
    assert str(call([], target)) == text


def test_the_answer_of_a_call_that_has_none() -> None:
    ends: list[tuple[Call, int]] = []
    one = call(ends)
    with pytest.raises(LocalProtocolError, match="Heartbeat to any broker: there is no response"):
        _ = one.answer
    one.settle(response := HeartbeatResponse(), None, 5)
    assert one.answer is response


def test_a_call_begins_with_neither_result_nor_error() -> None:
    new = call([])
    assert (new.result, new.error) == (None, None)
