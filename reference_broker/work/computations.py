"""Long computations in slices, which the broker's timers run one at a time, alternating between computations.

Requests and other computations thus wait for at most one slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar

from kafkawire.reference_broker.work.timers import Timers

__all__ = ["Computations"]

R = TypeVar("R")

#: The number of computations that take turns; others wait, which bounds the memory in use.
_ACTIVE_MAX = 64


class _Work(NamedTuple, Generic[R]):
    """A computation: its slices, a check that it is still wanted, and the callback for the result."""

    slices: Generator[None, None, R]
    is_wanted: Callable[[], bool]
    done: Callable[[R, int], None]


class Computations:
    """Computations that take turns.

    Args:
        timers: the broker's timers.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._works: deque[_Work[Any]] = deque()
        self._is_due = False

    def add(
        self,
        slices: Generator[None, None, R],
        is_wanted: Callable[[], bool],
        done: Callable[[R, int], None],
        now_ms: int,
    ) -> None:
        """Begin a computation.

        Args:
            slices: a generator that yields after each slice and returns the result.
            is_wanted: checked before each slice; if it returns False, the computation is dropped.
            done: called with the result and the time.
            now_ms: the current time.
        """
        self._works.append(_Work(slices, is_wanted, done))
        self._go_on(now_ms)

    def begin(
        self,
        slices: Generator[None, None, R],
        is_wanted: Callable[[], bool],
        done: Callable[[R, int], None],
        now_ms: int,
    ) -> None:
        """Run the first slice of a computation now, and the other slices as `add` does."""
        try:
            next(slices)
        except StopIteration as end:
            done(end.value, now_ms)
        else:
            self.add(slices, is_wanted, done, now_ms)

    def _go_on(self, now_ms: int) -> None:
        if self._works and not self._is_due:
            self._is_due = True
            self._timers.at(now_ms, self._slice)

    def _slice(self, now_ms: int) -> None:
        self._is_due = False
        work = self._works.popleft()
        try:
            if not work.is_wanted():
                return
            next(work.slices)
        except StopIteration as end:
            work.done(end.value, now_ms)
        else:
            self._works.insert(_ACTIVE_MAX - 1, work)
        finally:
            self._go_on(now_ms)
