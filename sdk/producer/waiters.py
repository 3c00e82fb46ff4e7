"""The pending calls to `flush`, which wait for all records, and to `drain`, which wait for room in the buffer."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.transport.promise import Promise

__all__ = ["Waiters"]


class _Flush:
    """A call to `flush`, and the outcomes that it waits for."""

    __slots__ = ("outcomes", "promise")

    def __init__(self, promise: Promise[None], outcomes: set[Outcome]) -> None:
        self.promise = promise
        self.outcomes = outcomes


class Waiters:
    """The calls to `flush` and `drain` that have not returned."""

    def __init__(self) -> None:
        self._flushes: list[_Flush] = []
        self._drains: list[tuple[Promise[None], int]] = []

    @property
    def flushes(self) -> int:
        """The number of calls to `flush` that have not returned."""
        return len(self._flushes)

    def await_all(self, promise: Promise[None], outcomes: Iterable[Outcome]) -> None:
        """Keep a promise once all outcomes are settled, even if their records move elsewhere."""
        flush = _Flush(promise, set(outcomes))
        if flush.outcomes:
            self._flushes.append(flush)
        else:
            promise.keep(None)

    def await_room(self, promise: Promise[None], bytes_held: int) -> None:
        """Keep a promise once no more than the given number of bytes is held."""
        self._drains.append((promise, bytes_held))

    @property
    def awaits_room(self) -> bool:
        """Whether a call waits for room."""
        return bool(self._drains)

    def moved(self, outcome: Outcome, others: Iterable[Outcome]) -> None:
        """Record that the records of an outcome have moved to other outcomes."""
        for flush in self._flushes:
            try:
                flush.outcomes.remove(outcome)
            except KeyError:  # the flush does not wait for this outcome
                continue
            flush.outcomes.update(others)

    def ended(self, outcome: Outcome) -> None:
        """Record that an outcome is settled."""
        for flush in list(self._flushes):
            flush.outcomes.discard(outcome)
            if not flush.outcomes:
                self._flushes.remove(flush)
                flush.promise.keep(None)

    def room(self, bytes_held: int) -> None:
        """Update the number of bytes held."""
        if self._drains:
            kept = [drain for drain in self._drains if bytes_held <= drain[1]]
            self._drains = [drain for drain in self._drains if bytes_held > drain[1]]
            for promise, _ in kept:
                promise.keep(None)

    def fail(self, error: KafkaWireError) -> None:
        """Fail all waiting calls."""
        promises = [flush.promise for flush in self._flushes] + [promise for promise, _ in self._drains]
        self._flushes, self._drains = [], []
        for promise in promises:
            promise.fail(error)
