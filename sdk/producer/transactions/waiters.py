"""The callers that wait for the end of a producer's transaction, each with a separate limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.transport.promise import Promise

__all__ = ["TransactionWaiters"]


class _Waiter(NamedTuple):
    deadline_ms: int
    timeout_ms: int
    promise: Promise[None]
    hears: bool


class TransactionWaiters:
    """The promises that are settled when a transaction ends."""

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []

    def add(self, promise: Promise[None], timeout_ms: int, now_ms: int, *, hears: bool) -> None:
        """Add a promise.

        Args:
            promise: settled when the transaction ends or when the limit has passed.
            timeout_ms: the limit.
            now_ms: the time.
            hears: whether to fail the promise with the reason if the transaction is not committed.
        """
        self._waiting.append(_Waiter(now_ms + timeout_ms, timeout_ms, promise, hears))

    def ended(self, error: KafkaWireError | None) -> None:
        """Keep the promises; if there is an error, those added with `hears` fail with it."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.hears and error is not None:
                waiter.promise.fail(error)
            else:
                waiter.promise.keep(None)

    def fail(self, error: KafkaWireError) -> None:
        """Fail all promises."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.promise.fail(error)

    def expire(self, now_ms: int, error: Callable[[int], KafkaWireError]) -> None:
        """Fail the promises whose limit has passed, with the error that `error` returns for that limit."""
        late = [waiter for waiter in self._waiting if waiter.deadline_ms <= now_ms]
        if late:
            self._waiting = [waiter for waiter in self._waiting if waiter.deadline_ms > now_ms]
        for waiter in late:
            waiter.promise.fail(error(waiter.timeout_ms))

    def due_ms(self) -> int | None:
        """Return the next deadline."""
        return min((waiter.deadline_ms for waiter in self._waiting), default=None)
