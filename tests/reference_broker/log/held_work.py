"""Background work that a test holds back, and lets happen when it wants."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["HeldWork"]


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
