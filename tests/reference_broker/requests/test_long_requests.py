"""A large request is handled in steps, with turns for other connections in between; a small one is handled immediately.

Method: run the test's own handlers one step at a time; let connections take turns through a list of deferred calls.
`apis/test_large_requests.py` covers large requests of each kind.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import AT_A_TIME, begin, complete_by_work
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, all_steps

#: Enough entries to take many turns.
MANY = 50 * AT_A_TIME

NUMBERS = list(range(MANY))

FIRST = HeartbeatResponse(1)


def working(entries: int, answer):
    """Return the work generator of a handler of large requests."""
    for _ in range(entries):
        yield
    return answer


def begun(work: Work[Any]) -> Any:
    """Handle the first step of a request; tests check the type of the answer."""
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
    with pytest.raises(LocalProtocolError, match="a handler must return a response, got None"):
        all_steps(delayed)


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
    complete_by_work(bench.call(request), delayed, making())
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
        complete_by_work(bench.call(request), delayed, failing())
    assert raised.value is error


def test_response_that_is_made_late_for_a_client_that_has_gone(bench: BrokerBench):
    done, delayed = list[int](), DelayedOperation()

    def making() -> Work[Message]:
        for number in range(5_000):
            done.append(number)
            yield
        return HeartbeatResponse()

    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, FIRST, 1)
    complete_by_work(bench.call(request), delayed, making())
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
        complete_by_work(bench.call(request), delayed, ending())
    assert not heard
