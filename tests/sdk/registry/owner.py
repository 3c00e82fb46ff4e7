"""The owner of a registry in tests; posted calls wait in a queue until the test runs them on its own thread."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import TypeVar

from kafkawire.sdk.registry.registry import Operation, Outcome, Registry, RegistryError, SessionListener, WatchEvent
from kafkawire.sdk.registry.steps import Steps, run

__all__ = ["Owner", "SessionNotes"]

R = TypeVar("R")

#: A registry that has not answered by this time never will. This is less than a test's time limit.
_TIMEOUT_SECONDS = 60


class Owner:
    """An owner that runs the calls that registries post to it.

    Attributes:
        events: the events from watches that were set with `note`.
    """

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, function: Callable[[], None]) -> None:
        self._queue.put(function)

    def note(self, event: WatchEvent) -> None:
        """Record an event."""
        self.events.append(event)

    def turn(self) -> None:
        """Run the calls posted so far."""
        for _ in range(self._queue.qsize()):
            self._queue.get()()

    def run_all(self) -> None:
        """Run all posted calls, including calls that these post."""
        while not self._queue.empty():
            self._queue.get()()

    def until(self, is_reached: Callable[[], bool]) -> None:
        """Run posted calls until a condition holds.

        Raises:
            queue.Empty: no more calls were posted.
        """
        while not is_reached():
            self._queue.get(timeout=_TIMEOUT_SECONDS)()

    def submit(self, registry: Registry, *operations: Operation) -> list[tuple[Outcome, ...]]:
        """Submit operations, and return a list whose only element will be their outcomes."""
        ended: list[tuple[Outcome, ...]] = []
        registry.submit(operations, ended.append)
        assert not ended, "an outcome was reported within `submit`"
        return ended

    def ask_all(self, registry: Registry, *operations: Operation) -> tuple[Outcome, ...]:
        """Submit operations, and return their outcomes."""
        ended = self.submit(registry, *operations)
        self.until(lambda: bool(ended))
        return ended[0]

    def ask(self, registry: Registry, operation: Operation) -> Outcome:
        """Submit an operation, and return its outcome."""
        (outcome,) = self.ask_all(registry, operation)
        return outcome

    def code(self, registry: Registry, operation: Operation) -> str:
        """Submit an operation that fails, and return the name of its code."""
        outcome = self.ask(registry, operation)
        assert isinstance(outcome, RegistryError), outcome
        return outcome.code.name

    def run(self, registry: Registry, steps: Steps[R]) -> R:
        """Carry out a sequence, and return its result or raise its error."""
        results: list[R] = []
        errors: list[Exception] = []
        run(registry, steps, results.append, errors.append)
        self.until(lambda: bool(results or errors))
        if errors:
            raise errors[0]
        return results[0]


class SessionNotes(SessionListener):
    """A listener that records its calls.

    Attributes:
        told: the names of the methods that were called.
        errors: the errors passed to `refused`.
    """

    def __init__(self, registry: Registry) -> None:
        self.told: list[str] = []
        self.ids: list[int] = []
        self.errors: list[Sequence[object]] = []
        self._registry = registry
        registry.add_listener(self)

    def _note(self, name: str) -> None:
        self.told.append(name)
        self.ids.append(self._registry.session_id)

    def opened(self) -> None:
        self._note("opened")

    def suspended(self) -> None:
        self._note("suspended")

    def connected(self) -> None:
        self._note("connected")

    def expired(self) -> None:
        self._note("expired")

    def refused(self, error: RegistryError) -> None:
        self._note("refused")
        self.errors.append((error.code.name, error.detail))
