"""Background work that a test holds back, and lets happen when it wants."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["HeldWork", "ShuffledWork"]


class HeldWork:
    """A background that does nothing by itself; the instance is the `Background`.

    Attributes:
        pending: what was asked for, in order.
    """

    def __init__(self) -> None:
        self.pending: deque[tuple[Callable[[], None], Callable[[Exception | None], None]]] = deque()

    def __call__(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.pending.append((work, done))

    def run(self, count: int | None = None) -> None:
        """Let so much of the work happen; None for all, with what it gives rise to."""
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
        """Return what lets all of the work happen, if it is told to, or one of these numbers of pieces."""
        return lambda is_all: self.run(None if is_all else chance.choice(counts))


class ShuffledWork:
    """A background whose work is done, and told, in any order, as on several threads; the instance is the `Background`.

    Args:
        seed: chooses the order.
        threads: so much of the work is done at a time.
    """

    def __init__(self, seed: int, threads: int = 4) -> None:
        self._random = Random(seed)
        self._threads = threads
        self._pending: deque[tuple[Callable[[], None], Callable[[Exception | None], None]]] = deque()
        #: What is to be told of work that was done.
        self._done: list[tuple[Callable[[Exception | None], None], Exception | None]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._pending.append((work, done))

    def step(self) -> bool:
        """Do or tell one thing; return whether there was any."""
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
        """Let so much happen; None for all."""
        while count != 0 and self.step():
            count = None if count is None else count - 1
