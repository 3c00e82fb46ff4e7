"""A delayed operation completes exactly once; a cancelled operation releases what it holds.

Method: use callbacks that record their arguments.
"""

from typing import Any

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts, given_later
from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse

FIRST, SECOND = HeartbeatResponse(1), HeartbeatResponse(2)


def made(response):
    """Return a work generator that produces a response."""
    yield
    return response


@pytest.mark.parametrize("early", [True, False])
def test_only_the_first_completion_counts(early):
    waiting, heard = DelayedOperation(), []
    if early:
        waiting.complete(FIRST)
    waiting.then(heard.append)
    waiting.complete(FIRST)
    waiting.complete(SECOND)
    assert heard == [FIRST]
    assert waiting.response is FIRST


def test_a_cancelled_operation_never_completes():
    waiting, heard, released = DelayedOperation(), [], []
    waiting.then(heard.append)
    waiting.on_cancel = lambda: released.append(True)
    waiting.cancel()
    waiting.cancel()
    waiting.complete(FIRST)
    assert (heard, released, waiting.response) == ([], [True], None)


def test_a_completed_operation_cannot_be_cancelled():
    waiting, released = DelayedOperation(), []
    waiting.on_cancel = lambda: released.append(True)
    waiting.complete(FIRST)
    waiting.cancel()
    assert not released


def completed_by_another():
    """Return an operation whose work ends by returning another operation, which is already completed."""
    other, waiting = DelayedOperation(), DelayedOperation()
    other.complete(FIRST)
    waiting.steps = made(other)
    waiting.step()
    waiting.step()
    assert waiting.response is FIRST
    return waiting


def completed():
    waiting = DelayedOperation()
    waiting.then(lambda response: None)
    waiting.on_cancel = lambda: None
    waiting.complete(FIRST)
    return waiting


def cancelled():
    waiting = DelayedOperation()
    waiting.then(lambda response: None)
    waiting.on_cancel, waiting.steps = lambda: None, made(FIRST)
    waiting.cancel()
    return waiting


@pytest.mark.parametrize("make", [completed_by_another, completed, cancelled])
def test_an_operation_that_has_ended_refers_to_nothing(make):
    """Otherwise, a request and all its records would stay in memory for as long as the operation does."""
    waiting = make()
    assert (waiting.on_cancel, waiting.steps, waiting._then, waiting._otherwise) == (None, None, None, None)


def test_what_is_followed_is_cancelled_too():
    other, waiting = DelayedOperation(), DelayedOperation()
    waiting.steps = made(other)
    waiting.step()
    waiting.step()
    waiting.cancel()
    assert other.is_cancelled


def test_response_of_parts_that_are_all_there():
    parts = Parts()
    parts.expect()
    parts.arrived()
    assert parts.respond(FIRST) is FIRST


def test_response_waits_for_its_last_part():
    parts = Parts()
    for _ in range(3):
        parts.expect()
    parts.arrived()
    waiting = parts.respond(FIRST)
    assert isinstance(waiting, DelayedOperation)
    parts.arrived()
    assert waiting.response is None
    parts.arrived()
    assert waiting.response is FIRST


def test_a_response_that_another_part_gives():
    assert given_later(lambda give: give(FIRST)) is FIRST
    later = []
    waiting = given_later(later.append)
    assert waiting.response is None
    later[0](FIRST)
    later[0](SECOND)
    assert waiting.response is FIRST


def test_none_is_no_response():
    waiting, errors = DelayedOperation(), []
    nothing: Any = None
    for complete in (lambda: waiting.complete(nothing), lambda: waiting.complete_by(lambda: nothing)):
        with pytest.raises(LocalProtocolError, match="completed with a response, got None"):
            complete()
    waiting.on_error = lambda error: made(errors.append(error) or SECOND)
    waiting.complete(nothing)
    assert waiting.response is SECOND
    assert [type(error) for error in errors] == [LocalProtocolError]


def test_what_completes_an_operation_may_find_it_completed():
    waiting = DelayedOperation()

    def complete_first() -> HeartbeatResponse:
        waiting.complete(FIRST)
        return SECOND

    waiting.complete_by(complete_first)
    assert waiting.response is FIRST


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("is_in_steps", [True, False])
def test_failure_without_a_response(is_early, is_in_steps):
    waiting, heard, failures, released = DelayedOperation(), [], [], []
    failure = RemoteProtocolError("there is no answer")

    def fail(*arguments):
        raise failure

    def steps():
        yield fail()

    waiting.on_error, waiting.on_cancel, waiting.steps = fail, lambda: released.append(True), steps()
    if not is_early:
        waiting.then(heard.append, failures.append)
    if is_in_steps:
        waiting.step()
        assert waiting.steps is None
    else:
        waiting.complete_by(fail)
    if is_early:
        waiting.then(heard.append, failures.append)
    waiting.complete(FIRST)
    waiting.complete_by(fail)
    waiting.cancel()
    assert (heard, failures, released, waiting.response) == ([], [failure], [], None)


def test_completed_by_a_function_or_by_its_error():
    def fail() -> HeartbeatResponse:
        raise OSError("the file is gone")

    waiting = DelayedOperation()
    with pytest.raises(OSError, match="gone"):
        waiting.complete_by(fail)
    waiting.on_error = lambda error: made(SECOND)
    waiting.complete_by(fail)
    assert waiting.response is SECOND
    waiting.complete_by(fail)
    other = DelayedOperation()
    other.complete_by(lambda: FIRST)
    assert other.response is FIRST
    gone = DelayedOperation()
    gone.cancel()
    gone.complete_by(fail)
    assert gone.response is None
