"""Requests that ask for much, in pieces: other connections have their turn between any two of them.

A handler that goes through the entries of a request, or through all topics, is a generator function: it yields after
each entry, and returns what any other handler returns. `begin` does its first piece, which is all that most requests
need, so that they are answered at once. The session does the others, as long as its turn lasts, and then takes turns
with all others that have such a request. What a handler checks, and what it changes because of that, belong to one
entry: no `yield` is between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.schema import Message

if TYPE_CHECKING:
    from kafkawire.reference_broker.apis.registry import Answer, Call

__all__ = ["AT_A_TIME", "Pieces", "Turns", "Work", "begin", "complete_by_work", "counted", "each"]

E = TypeVar("E")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

#: Yields after each entry, and returns the result.
Work: TypeAlias = Generator[None, None, R]

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

    call.core.slices.begin(guarded(), lambda: not delayed.is_cancelled, _ignore, call.now_ms)


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


def each(entries: Iterable[E], act: Callable[[E], R]) -> Work[list[R]]:
    """Return what a function returns for each entry."""
    results = []
    for entry in entries:
        results.append(act(entry))
        yield
    return results


def counted(entries: Iterable[K]) -> Work[dict[K, int]]:
    """Return how often each entry comes, in the order in which they come first."""
    counts: dict[K, int] = {}
    for entry in entries:
        counts[entry] = counts.get(entry, 0) + 1
        yield
    return counts


class Pieces:
    """Counts the entries of a large request over loops in a loop; an empty inner loop counts as an entry, too.

    Args:
        size: entries of a piece.
    """

    __slots__ = ("_left", "_size")

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def ends(self) -> bool:
        """Count one more entry; return whether others have their turn after it."""
        self._left -= 1
        if self._left:
            return False
        self._left = self._size
        return True


class Turns:
    """Connections whose requests take more than one turn: of all of them, one has its turn before new requests have.

    However many there are, a request that needs little waits for one of them only.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def later(self, step: Callable[[], None], defer: Callable[[Callable[[], None]], object]) -> None:
        """Call `step` when those that came before have been called.

        Args:
            step: what is done in a turn.
            defer: calls a function soon, but not now.
        """
        self._waiting.append(step)
        if len(self._waiting) == 1:
            defer(lambda: self._next(defer))

    def _next(self, defer: Callable[[Callable[[], None]], object]) -> None:
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()
            if self._waiting:
                defer(lambda: self._next(defer))
