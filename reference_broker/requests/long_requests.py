"""Requests that ask for much, in pieces: other connections have their turn between any two of them.

A handler that goes through the entries of a request, or through all topics, is a generator function: it yields after
each entry, and returns what any other handler returns. `begin` does its first piece, which is all that most requests
need, so that they are answered at once. The session does the others, as long as its turn lasts, and then takes turns
with all others that have such a request. What a handler checks, and what it changes because of that, belong to one
entry: no `yield` is between them.
"""

from __future__ import annotations

from functools import partial
from typing import NoReturn, TypeVar

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import Answer, DelayedOperation
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.schema import Message

__all__ = ["AT_A_TIME", "begin", "complete_by_work"]

R = TypeVar("R")

#: Entries of a piece: a few microseconds each as a rule, and a tenth of a millisecond where a topic is created.
AT_A_TIME = 20

#: The same of what is done after something was waited for: those who do that take turns of at most a few milliseconds.
_LATE_AT_A_TIME = 500


def begin(work: Work[Answer]) -> Answer:
    """Do the first piece of a request; return its answer, or a delayed operation that has the others as its steps."""
    try:
        for _ in range(AT_A_TIME):
            next(work)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    delayed = DelayedOperation()
    delayed.steps = _pieces(work)
    return delayed


def complete_by_work(
    call: Call, delayed: DelayedOperation, work: Work[Message], at_a_time: int = _LATE_AT_A_TIME
) -> None:
    """Complete a delayed operation with a response that takes long to make, at once if it is small.

    Args:
        call: the context of the request.
        delayed: what waits for the response.
        work: makes it.
        at_a_time: after how many of its yields others have their turn.
    """

    def guarded() -> Work[None]:
        try:
            delayed.complete((yield from _pieces(work, at_a_time)))
        except (BrokerEnd, GeneratorExit):
            raise
        except BaseException as error:
            try:
                if delayed.on_error is None:
                    raise
                delayed.complete((yield from _pieces(delayed.on_error(error), _LATE_AT_A_TIME)))
            except RemoteProtocolError as failure:
                delayed.complete_by(partial(_fail, failure))

    call.services.computations.begin(guarded(), lambda: not delayed.is_cancelled, _ignore, call.now_ms)


def _fail(error: BaseException) -> NoReturn:
    raise error


def _ignore(result: None, now_ms: int) -> None:
    """The delayed operation has it."""


def _pieces(work: Work[R], at_a_time: int = AT_A_TIME) -> Work[R]:
    """Yield after each piece.

    Raises:
        LocalProtocolError: there is no answer.
    """
    while True:
        try:
            for _ in range(at_a_time):
                next(work)
        except StopIteration as end:
            if end.value is None:
                raise LocalProtocolError("a handler has returned None, which is no response") from None
            result: R = end.value
            return result
        yield
