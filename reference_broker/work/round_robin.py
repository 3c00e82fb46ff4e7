"""Round-robin turns for connections with long requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["RoundRobin"]


class RoundRobin:
    """Connections with requests that take several turns. One of them gets a turn before each round of new requests.

    A short request thus waits for only one of these connections, no matter how many there are.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def later(self, step: Callable[[], None], defer: Callable[[Callable[[], None]], object]) -> None:
        """Call `step` after all earlier steps.

        Args:
            step: the work of one turn.
            defer: calls a function soon, but not immediately.
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
