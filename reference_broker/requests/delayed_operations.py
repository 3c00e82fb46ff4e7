"""A delayed operation: the return value of a handler whose response comes later.

A fetch waits for data, JoinGroup for the other members, SyncGroup for the leader, and Produce for the disk. Logs,
timers and coordinators hold the callbacks that complete an operation; no purgatory is needed, since each operation is
watched in one place.

Source: `DelayedOperation`, `DelayedFetch`, `DelayedJoin` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.schema import Message

__all__ = ["Answer", "DelayedOperation", "OnError", "Parts", "finished", "given_later"]

M = TypeVar("M", bound=Message)
R = TypeVar("R")

#: Given an error, returns a generator that yields now and then, and finally returns the response.
OnError = Callable[[BaseException], Generator[None, None, Message]]


class DelayedOperation:
    """A response that may not be known yet.

    Attributes:
        response: None until the operation is completed.
        failure: why the connection is closed without a response; None if it is not.
        is_cancelled: whether the client has disconnected.
        on_cancel: called once when the operation is cancelled, to release its resources; exceptions are logged.
        on_error: returns the work that builds an error response, or raises `RemoteProtocolError` if none is possible;
            None while the handler itself runs, since its errors are answered elsewhere.
        check_unsent: if the client expects no response, this is called with the response, which is not sent; an
            exception closes the connection.
        steps: the remaining work before the response, in pieces between which other connections have a turn; None if no
            work is left. If the work returns a value, that is the response, or a delayed operation that produces it.
    """

    __slots__ = (
        "_otherwise",
        "_then",
        "check_unsent",
        "failure",
        "is_cancelled",
        "on_cancel",
        "on_error",
        "response",
        "steps",
    )

    def __init__(self) -> None:
        self.response: Message | None = None
        self.failure: RemoteProtocolError | None = None
        self.is_cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self.on_error: OnError | None = None
        self.check_unsent: Callable[[Any], None] | None = None
        self.steps: Iterator[None] | None = None
        self._then: Callable[[Message], object] | None = None
        self._otherwise: Callable[[RemoteProtocolError], object] | None = None

    @property
    def _is_over(self) -> bool:
        return self.response is not None or self.failure is not None or self.is_cancelled

    def answers(self, on_error: OnError) -> None:
        """Make this operation the answer to a request.

        Args:
            on_error: see the attribute.

        Raises:
            LocalProtocolError: this operation is already the answer to another request.
        """
        if self.on_error is not None:
            raise LocalProtocolError(
                "the same delayed operation was returned for two requests; each request needs its own"
            )
        self.on_error = on_error

    def step(self) -> None:
        """Run the next step; if it fails, the client gets an error."""
        assert self.steps is not None, "the operation has no remaining steps"
        try:
            next(self.steps)
        except StopIteration as end:
            self.steps = None
            if isinstance(end.value, DelayedOperation):
                self._follow(end.value)
            elif end.value is not None:
                self.complete(end.value)
        except BrokerEnd:
            raise
        except BaseException as error:
            self.steps = None
            if self.on_error is None:
                raise
            try:
                self.steps = self.on_error(error)
            except RemoteProtocolError as failure:
                self._end(failure)

    def _follow(self, other: DelayedOperation) -> None:
        """Complete this operation when another one is completed; nothing else refers to the other one."""
        if self.on_error is not None:
            other.answers(self.on_error)
        self.on_cancel = other.cancel
        other.then(self.complete, self._end)

    def complete_by(self, make: Callable[[], Message]) -> None:
        """Complete the operation with the result of `make`; if it fails or returns None, the client gets an error."""
        if self._is_over:
            return
        try:
            response = _checked(make())
        except BrokerEnd:
            raise
        except BaseException as error:
            if self.on_error is None:
                raise
            self._fail(error)
            return
        if not self._is_over:  # `make` may have completed or cancelled the operation
            self.response = response
            then, _ = self._let_go()
            if then is not None:
                then(response)

    def _let_go(self) -> tuple[Callable[[Message], object] | None, Callable[[RemoteProtocolError], object] | None]:
        """Return the callbacks and drop all of them, since they refer to this operation and to the whole request."""
        waiting = self._then, self._otherwise
        self.on_cancel = self._then = self._otherwise = None
        return waiting

    def _fail(self, error: BaseException) -> None:
        """Complete the operation with an error response, if one can be built."""
        assert self.on_error is not None, "the operation does not belong to a request yet"
        try:
            work = self.on_error(error)
        except RemoteProtocolError as failure:
            self._end(failure)
        else:
            self.complete(finished(work))

    def _end(self, failure: RemoteProtocolError) -> None:
        """Close the connection, because no response can be sent."""
        if not self._is_over:
            self.failure = failure
            _, otherwise = self._let_go()
            if otherwise is not None:
                otherwise(failure)

    def complete(self, response: Message) -> None:
        """Complete the operation, unless it is completed or cancelled; for None, the client gets an error."""
        self.complete_by(lambda: response)

    def then(
        self, action: Callable[[Message], object], otherwise: Callable[[RemoteProtocolError], object] | None = None
    ) -> None:
        """Call `action` with the response, or `otherwise` with the failure; immediately if the outcome is known."""
        if self.response is not None:
            action(self.response)
        elif self.failure is None:
            self._then, self._otherwise = action, otherwise
        elif otherwise is not None:
            otherwise(self.failure)

    def cancel(self) -> None:
        """Cancel the operation because the connection has been closed."""
        if not self._is_over:
            self.is_cancelled = True
            self.steps = None
            on_cancel = self.on_cancel
            self._let_go()
            if on_cancel is not None:
                on_cancel()


#: The answer to a request: a response, a delayed operation, or None if there is no response (acks=0).
Answer: TypeAlias = Message | DelayedOperation | None


def finished(work: Generator[None, None, R]) -> R:
    """Run work to completion without interruption, and return its result."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        result: R = end.value
        return result


def given_later(ask: Callable[[Callable[[M], None]], None]) -> M | DelayedOperation:
    """Return a response that another part of the broker provides; it is delayed unless it is provided immediately.

    Args:
        ask: called once with a function that accepts the response.
    """
    given: list[M] = []
    delayed = DelayedOperation()

    def give(response: M) -> None:
        given.append(response)
        delayed.complete(response)

    ask(give)
    return given[0] if given else delayed


def _checked(response: Message | None) -> Message:
    if response is None:
        raise LocalProtocolError("a delayed operation must be completed with a response, got None")
    return response


class Parts(Generic[M]):
    """Parts of one response that may arrive later, for example those for partitions being appended to."""

    __slots__ = ("_deadline", "_delayed", "_missing", "_response")

    def __init__(self) -> None:
        self._missing = 0
        self._response: M | None = None
        self._delayed: DelayedOperation | None = None
        self._deadline: Timer | None = None

    def expect(self) -> None:
        """Expect one more part."""
        self._missing += 1

    def arrived(self) -> None:
        """Record that a part has been added to the response."""
        self._missing -= 1
        if not self._missing and self._delayed is not None and self._response is not None:
            self._delayed.complete(self._response)
            if self._deadline is not None:
                self._deadline.cancel()

    def respond(self, response: M) -> M | DelayedOperation:
        """Return the response, delayed until all parts have arrived."""
        if not self._missing:
            return response
        self._response, self._delayed = response, DelayedOperation()
        return self._delayed

    def respond_by(self, deadline_ms: int, timers: Timers, response: M) -> M | DelayedOperation:
        """Return the response, delayed until all parts have arrived or the deadline has passed.

        Args:
            deadline_ms: when the client gets the response as it is by then; the response must show which parts have not
                yet arrived.
            timers: the broker's timers.
            response: see `respond`.
        """
        answer = self.respond(response)
        self.end_by(deadline_ms, timers)
        return answer

    def end_by(self, deadline_ms: int, timers: Timers) -> None:
        """Complete the delayed response at the deadline, unless all parts arrive before it; see `respond_by`."""
        delayed, response = self._delayed, self._response
        if self._missing and delayed is not None and response is not None:
            self._deadline = timers.at(deadline_ms, lambda now_ms: delayed.complete(response))
