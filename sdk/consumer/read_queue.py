"""The queue between the two sides of a consumer, whose items and errors readers wait for.

The I/O side adds items and errors, and the reading side takes them; the two can be separate threads. Deques append and
pop atomically, so no lock is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import TracebackType
from typing import Final, Generic, TypeVar

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.routing.retry import is_refusal
from kafkawire.sdk.transport.promise import Promise

__all__ = ["LOGIN", "ReadQueue"]

Item = TypeVar("Item")

#: The subject of refused logins; see `ReadQueue.report`.
LOGIN: Final[Hashable] = object()


class ReadQueue(Generic[Item]):
    """Items on their way to the application.

    Args:
        wake: makes the I/O side take a turn.

    Attributes:
        wake: as given.
        announces_reads: whether a read that begins to wait wakes the I/O side, as a group requires.
        errors: the errors that reads raise, one per read.
        refusal: the error that a read raises instead of waiting, while a broker is too old for this client.
        failure: why no more data will arrive; None while the client is running. A listener may have raised it.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._items: deque[Item] = deque()
        self._waiting: deque[Promise[None]] = deque()
        self.announces_reads = False
        self.errors: deque[KafkaWireError] = deque()
        self._reported: dict[Hashable, KafkaWireError] = {}  # the I/O side writes it
        self.refusal: KafkaWireError | None = None
        self._refused: dict[int, KafkaWireError] = {}
        self.failure: Exception | None = None
        self._traceback: TracebackType | None = None

    # The I/O side.

    def report(self, error: KafkaWireError, subject: Hashable = None) -> None:
        """Make a read raise an error, after which reading continues.

        Args:
            error: the error.
            subject: what the error is about, such as a partition; the error replaces an earlier one about the same
                subject that no read has raised, so that errors do not pile up while the application is busy. None for
                an error that the caller reports once. The subject of a refused login is always `LOGIN`: it is raised
                once, even if several machines report it, and only the first of those that no read has raised yet.
        """
        if is_refusal(error):
            if error is self._reported.get(LOGIN) or self.has_reported(LOGIN):
                return
            subject = LOGIN
        if subject is not None:
            self.retract(subject)
            self._reported[subject] = error
        self.errors.append(error)
        self.signal()

    def retract(self, subject: Hashable) -> None:
        """Drop the error about a subject, if no read has raised it, because it no longer applies."""
        error = self._reported.pop(subject, None)
        if error is not None:
            with suppress(ValueError):  # a read has raised it
                self.errors.remove(error)

    def refused(self, node_id: int, error: KafkaWireError | None) -> None:
        """Report a refused login once.

        Args:
            node_id: the broker that cannot be reached.
            error: the outcome of the last attempt to log in; None if it was not refused.
        """
        if error is not None and error is not self._refused.get(node_id):
            self._refused[node_id] = error
            self.report(error)

    def refuse(self, error: KafkaWireError | None) -> None:
        """Make every read that finds nothing raise an error; None clears the error."""
        if error is not None and error is not self.refusal:
            self.report(error)
        self.refusal = error

    def fail(self, error: Exception) -> None:
        """Wake all readers, because no more data will arrive."""
        self._traceback = error.__traceback__
        self.failure = error
        self.signal()

    def signal(self) -> None:
        """Wake all readers."""
        waiting = self._waiting
        while waiting:
            try:
                promise = waiting.popleft()
            except IndexError:  # the other side was quicker
                return
            promise.keep(None)

    # The reading side.

    def next_error(self) -> KafkaWireError | None:
        """Remove and return the oldest error; None if there is none, as the I/O side may also remove errors."""
        try:
            return self.errors.popleft()
        except IndexError:
            return None

    def has_reported(self, subject: Hashable) -> bool:
        """Return whether an error about a subject is waiting to be raised."""
        error = self._reported.get(subject)
        return error is not None and error in list(self.errors)

    def take_reported(self, subject: Hashable) -> KafkaWireError | None:
        """Remove and return the error about a subject that is waiting to be raised; None if there is none."""
        error = self._reported.get(subject)
        if error is not None:
            with suppress(ValueError):  # another read has raised it, or the I/O side has dropped it
                self.errors.remove(error)
                return error
        return None

    def check(self) -> None:
        """Raise the failure, if there is one; each read calls this."""
        failure = self.failure
        if failure is None:
            return
        if isinstance(failure, KafkaWireError):
            raise failure.again()
        raise failure.with_traceback(self._traceback)  # the traceback must not grow with each read

    def wait(self, is_there: Callable[[], bool] | None = None) -> Promise[None]:
        """Return a promise that is kept when something arrives; `cancel` it when it is no longer awaited.

        Args:
            is_there: returns whether the awaited data has arrived; None for anything that a read hands out or raises.
                With such a function, data for other readers does not keep settling the promise.
        """
        promise: Promise[None] = Promise()
        self._waiting.append(promise)
        if self.announces_reads:
            self.wake()
        if is_there is None:
            is_there = self._has_news
        if is_there():
            self.signal()
        return promise

    def cancel(self, promise: Promise[None]) -> None:
        """Forget a promise returned by `wait`."""
        if not promise.done:
            with suppress(ValueError):
                self._waiting.remove(promise)

    def _has_news(self) -> bool:
        """Return whether a read would find data or an error."""
        if self.refusal is not None and not self.errors:
            self.errors.append(self.refusal.again())
        return bool(self._items or self.errors) or self.failure is not None

    @property
    def is_awaited(self) -> bool:
        """Whether a read is waiting for records."""
        return bool(self._waiting)
