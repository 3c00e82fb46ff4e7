"""Background work that a test holds back and releases."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["HeldWork", "ShuffledWork"]


class HeldWork:
    """A `Background` that does nothing on its own.

    Attributes:
        pending: the requested work, in order.
    """

    def __init__(self) -> None:
        self.pending: deque[tuple[Callable[[], None], Callable[[Exception | None], None]]] = deque()

    def __call__(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.pending.append((work, done))

    def run(self, count: int | None = None) -> None:
        """Run a number of pieces of work; None for all, including the work that they request."""
        while self.pending and count != 0:
            work, done = self.pending.popleft()
            error = None
            try:
                work()
            except OSError as caught:
                error = caught
            done(error)
            count = None if count is None else count - 1

    def by_chance(self, chance: Random, counts: Sequence[int]) -> Callable[[bool], None]:
        """Return a function that runs all of the work, or a number of pieces chosen at random from the given ones."""
        return lambda is_all: self.run(None if is_all else chance.choice(counts))


class ShuffledWork:
    """A `Background` that runs and reports work in any order, as several threads would.

    Args:
        seed: determines the order.
        threads: the number of pieces of work that run at a time.
    """

    def __init__(self, seed: int, threads: int = 4) -> None:
        self._random = Random(seed)
        self._threads = threads
        self._pending: deque[tuple[Callable[[], None], Callable[[Exception | None], None]]] = deque()
        #: The reports on finished work that have yet to be made.
        self._done: list[tuple[Callable[[Exception | None], None], Exception | None]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._pending.append((work, done))

    def step(self) -> bool:
        """Run or report one piece of work; return whether there was any."""
        choices = min(len(self._pending), self._threads) + len(self._done)
        if not choices:
            return False
        chosen = self._random.randrange(choices) - len(self._done)
        if chosen < 0:
            done, error = self._done.pop(chosen)
            done(error)
            return True
        work, done = self._pending[chosen]
        del self._pending[chosen]
        error = None
        try:
            work()
        except OSError as caught:
            error = caught
        self._done.append((done, error))
        return True

    def run(self, count: int | None = None) -> None:
        """Take a number of steps; None for all."""
        while count != 0 and self.step():
            count = None if count is None else count - 1
