"""Measure how late the event loop runs a timer: the time for which every request waits while the loop is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["LoopDelay"]

#: How often the delay is measured.
_INTERVAL_SECONDS: Final = 1.0

_NS_PER_SECOND: Final = 1_000_000_000


class LoopDelay:
    """Measures the running event loop.

    Args:
        add: called with each delay in nanoseconds.
    """

    def __init__(self, add: Callable[[int], None]) -> None:
        self._add = add
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _INTERVAL_SECONDS

        def check() -> None:
            self._add(max(round((loop.time() - due) * _NS_PER_SECOND), 0))
            self.start()

        self._timer = loop.call_at(due, check)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
