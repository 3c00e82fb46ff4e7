"""Turns for connections whose requests take long, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["RoundRobin"]


class RoundRobin:
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
