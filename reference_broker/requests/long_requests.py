"""Long requests, processed in pieces: other connections get a turn between pieces.

A handler that iterates over the entries of a request, or over all topics, is a generator function: it yields after each
entry, and returns its answer like any other handler. `begin` runs the first piece, which suffices for most requests, so
they are answered immediately. The session runs further pieces until its turn ends, and then takes turns with other
sessions that have a long request. There must be no `yield` between a check and the change that depends on it, so both
must belong to the same entry.
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

#: Entries in a piece, each of which usually takes a few microseconds, or a tenth of a millisecond to create a topic.
AT_A_TIME = 20

#: Entries in a piece of work that follows a wait; such work gets turns of at most a few milliseconds.
_LATE_AT_A_TIME = 500


def begin(work: Work[Answer]) -> Answer:
    """Run the first piece of a request; return its answer, or a delayed operation whose steps run the others."""
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
    """Complete a delayed operation with a response that may take long to build; build a small one immediately.

    Args:
        call: the context of the request.
        delayed: the operation to complete.
        work: builds the response.
        at_a_time: the number of yields after which other connections get a turn.
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
    """Discard the result, which the delayed operation already has."""


def _pieces(work: Work[R], at_a_time: int = AT_A_TIME) -> Work[R]:
    """Yield after each piece.

    Raises:
        LocalProtocolError: the handler returned None.
    """
    while True:
        try:
            for _ in range(at_a_time):
                next(work)
        except StopIteration as end:
            if end.value is None:
                raise LocalProtocolError("a handler must return a response, got None") from None
            result: R = end.value
            return result
        yield
