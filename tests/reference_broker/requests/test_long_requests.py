"""A request that asks for much is done in pieces, and others have their turn between them; a small one is done at once.

Method: handlers of the test, one step at a time; connections that take turns by a list of deferred calls. Large
requests of each kind are in `apis/test_large_requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.apis.registry import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import (
    AT_A_TIME,
    Pieces,
    Turns,
    Work,
    begin,
    complete_by_work,
    counted,
    each,
)
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.sdk.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, all_steps

#: So many entries take many turns.
MANY = 50 * AT_A_TIME

NUMBERS = list(range(MANY))

FIRST = HeartbeatResponse(1)


def working(entries: int, answer):
    """Return the work of a handler."""
    for _ in range(entries):
        yield
    return answer


def begun(work: Work[Any]) -> Any:
    """Do the first piece of a request; the kind of the answer is what tests are about."""
    return begin(work)


def answered(error: BaseException) -> Work[Message]:
    assert isinstance(error, BrokerError)
    yield
    return HeartbeatResponse(error_code=error.code)


@pytest.mark.parametrize("answer", [FIRST, None, DelayedOperation()])
def test_small_request_is_answered_at_once(answer):
    assert begun(working(AT_A_TIME - 1, answer)) is answer


def test_large_request_is_answered_after_its_last_piece():
    delayed = begun(working(3 * AT_A_TIME, FIRST))
    for _ in range(2):
        delayed.step()
        assert delayed.response is None
    delayed.step()
    assert (delayed.response, delayed.steps) == (FIRST, None)


def test_large_request_may_wait_for_something_after_its_last_piece():
    later, heard = DelayedOperation(), []
    delayed = begun(working(AT_A_TIME, later))
    delayed.then(heard.append)
    all_steps(delayed)
    assert not heard
    later.complete(FIRST)
    assert heard == [FIRST]


def test_what_a_large_request_waits_for_is_cancelled_with_it():
    later = DelayedOperation()
    delayed = begun(working(AT_A_TIME, later))
    all_steps(delayed)
    delayed.cancel()
    assert later.is_cancelled


def test_error_after_the_first_piece_is_answered():
    def failing():
        yield from working(AT_A_TIME, None)
        raise BrokerError(ErrorCode.POLICY_VIOLATION)

    delayed = begun(failing())
    delayed.answers(answered)
    all_steps(delayed)
    assert delayed.response.error_code == ErrorCode.POLICY_VIOLATION


def test_error_of_what_a_large_request_waits_for_is_answered():
    def fail():
        raise BrokerError(ErrorCode.POLICY_VIOLATION)

    later = DelayedOperation()
    delayed = begun(working(AT_A_TIME, later))
    delayed.answers(answered)
    all_steps(delayed)
    later.complete_by(fail)
    assert delayed.response.error_code == ErrorCode.POLICY_VIOLATION


def test_no_answer_after_the_first_piece_is_an_error():
    delayed = begun(working(AT_A_TIME, None))
    with pytest.raises(LocalProtocolError, match="has returned None"):
        all_steps(delayed)


def test_every_piece_ends_with_its_last_entry():
    pieces = Pieces(3)
    assert [pieces.ends() for _ in range(7)] == [False, False, True, False, False, True, False]


@pytest.mark.parametrize("entries", [1, 5_000])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ErrorCode.NONE),
        (BrokerError(ErrorCode.POLICY_VIOLATION), ErrorCode.POLICY_VIOLATION),
        (RemoteProtocolError("there is no answer"), None),
    ],
)
def test_response_that_is_made_late(bench: BrokerBench, entries: int, error: Exception | None, code: ErrorCode | None):
    def making() -> Work[Message]:
        yield from working(entries, None)
        if error is not None:
            raise error
        return HeartbeatResponse()

    def on_error(failure: BaseException) -> Work[Message]:
        if isinstance(failure, RemoteProtocolError):
            raise failure
        return answered(failure)

    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, FIRST, 1)
    delayed = DelayedOperation()
    delayed.answers(on_error)
    complete_by_work(Call(bench.core, request, bench.peer, bench.now_ms), delayed, making())
    assert (delayed.response or delayed.failure) is None if entries > 1 else True
    for _ in range(entries):
        bench.advance(0)
    if code is None:
        assert delayed.failure is error
    else:
        assert isinstance(delayed.response, HeartbeatResponse)
        assert delayed.response.error_code == code


def test_error_of_a_late_response_that_nobody_answers_is_raised(bench: BrokerBench):
    error, delayed = BrokerError(ErrorCode.POLICY_VIOLATION), DelayedOperation()

    def failing() -> Work[Message]:
        raise error
        yield

    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, FIRST, 1)
    with pytest.raises(BrokerError) as raised:
        complete_by_work(Call(bench.core, request, bench.peer, bench.now_ms), delayed, failing())
    assert raised.value is error


def test_response_that_is_made_late_for_a_client_that_has_gone(bench: BrokerBench):
    done, delayed = list[int](), DelayedOperation()

    def making() -> Work[Message]:
        for number in range(5_000):
            done.append(number)
            yield
        return HeartbeatResponse()

    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, FIRST, 1)
    complete_by_work(Call(bench.core, request, bench.peer, bench.now_ms), delayed, making())
    delayed.cancel()
    before = len(done)
    bench.advance(0)
    assert 0 < len(done) == before


def test_end_of_the_broker_is_no_error_to_answer(bench: BrokerBench):
    heard, delayed = list[BaseException](), DelayedOperation()

    def on_error(error: BaseException) -> Work[Message]:
        heard.append(error)
        return answered(error)

    def ending() -> Work[Message]:
        raise BrokerEnd
        yield

    delayed.answers(on_error)
    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, FIRST, 1)
    with pytest.raises(BrokerEnd):
        complete_by_work(Call(bench.core, request, bench.peer, bench.now_ms), delayed, ending())
    assert not heard


def test_each_entry_gives_way():
    assert len(list(each(NUMBERS, str))) == len(list(counted(NUMBERS))) == MANY
    assert begun(each([1, 2], str)) == ["1", "2"]
    assert begun(counted("abca")) == {"a": 2, "b": 1, "c": 1}


def test_connections_take_turns():
    turns, deferred, done = Turns(), [], []

    def work(name: str, left: int) -> Callable[[], None]:
        def step() -> None:
            done.append(name)
            if left > 1:
                turns.later(work(name, left - 1), deferred.append)

        return step

    for name in "abc":
        turns.later(work(name, 2), deferred.append)
    while deferred:
        (following,) = deferred
        deferred.clear()
        following()
    assert "".join(done) == "abcabc"


def test_connection_that_is_alone_has_its_turn():
    turns, deferred, done = Turns(), [], []
    turns.later(lambda: done.append("a"), deferred.append)
    deferred.pop()()
    assert (done, deferred) == (["a"], [])


def test_turn_that_fails_takes_no_other_with_it():
    turns, deferred, done = Turns(), [], []

    def fail() -> None:
        raise ValueError("odd")

    turns.later(fail, deferred.append)
    turns.later(lambda: done.append("b"), deferred.append)
    with pytest.raises(ValueError, match="odd"):
        deferred.pop()()
    deferred.pop()()
    assert done == ["b"]
    assert not deferred
