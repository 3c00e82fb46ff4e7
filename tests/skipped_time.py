"""Event loops on which no test waits: if nothing is left to do before the next timer, its time comes at once.

A test of a time limit then takes no time, and its outcome does not depend on how busy the machine is: between two
timers, however long the code in between takes, no time passes. This suits tests in which everything runs on one event
loop, with a network in memory; other threads and sockets would need time that does not pass.
"""

from __future__ import annotations

import asyncio
import selectors
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kafkawire.sdk import clock
from kafkawire.sdk.transport import io_thread

__all__ = ["skipped_time"]


class _Clock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now_ns = clock.monotonic_ns()

    def read_ns(self) -> int:
        """Return the time in nanoseconds."""
        return self.now_ns

    def read(self) -> float:
        """Return the time in seconds."""
        return self.now_ns / 1e9


class _SkippingSelector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting for the next timer."""

    def __init__(self, moved: _Clock) -> None:
        super().__init__()
        self._clock = moved

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; without timers, wait for it."""
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self._clock.now_ns += round(timeout * 1e9) + 1  # at least one, so that the timer is due
        return ready


def _refuse_threads() -> None:
    raise AssertionError("an I/O thread would wait for time that passes only on the application's event loop")


@contextmanager
def skipped_time() -> Iterator[None]:
    """Make new event loops skip the time until the next timer, and make the clients' clocks follow."""
    moved = _Clock()
    readers: dict[Any, Any] = {
        clock.monotonic_ms: {"_read_ns": moved.read_ns},
        clock.monotonic_ns: {"_read_ns": moved.read_ns},
        clock.monotonic_seconds: {"_read": moved.read},
    }

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(_SkippingSelector(moved))
        vars(loop)["time"] = moved.read
        return loop

    new_event_loop = asyncio.new_event_loop
    defaults = {function: function.__kwdefaults__ for function in readers}
    asyncio.new_event_loop = events.new_event_loop = new_loop
    try:
        for function, given in readers.items():
            function.__kwdefaults__ = given
        with patch.object(io_thread, "check_threads", _refuse_threads):
            yield
    finally:
        for function, given in defaults.items():
            function.__kwdefaults__ = given
        asyncio.new_event_loop = events.new_event_loop = new_event_loop
