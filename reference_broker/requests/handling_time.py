"""The time that the event loop works on a request, which the request quota limits.

It pauses while other connections have a turn, and while the response is delayed. `request_times.py` says how long the
client waits, which is measured for other reasons, and in brokers without quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["HandlingTime"]

_PERCENT_NS: Final = 10_000_000


class HandlingTime:
    """The time spent on one request, without that spent waiting.

    Args:
        clock_ns: returns the time in nanoseconds.
    """

    __slots__ = ("_began_ns", "_clock_ns", "_spent_ns")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._spent_ns = 0
        #: When the current piece of work began; None while the request waits.
        self._began_ns: int | None = clock_ns()

    def pause(self) -> None:
        """Stop counting until `resume`."""
        self._count()
        self._began_ns = None

    def resume(self) -> None:
        """Continue to count."""
        if self._began_ns is None:
            self._began_ns = self._clock_ns()

    def take_percent(self) -> float:
        """Return the time since the last call, in percent of a second."""
        self._count()
        spent_ns, self._spent_ns = self._spent_ns, 0
        return spent_ns / _PERCENT_NS

    def _count(self) -> None:
        if self._began_ns is not None:
            now_ns = self._clock_ns()
            self._spent_ns += now_ns - self._began_ns
            self._began_ns = now_ns
