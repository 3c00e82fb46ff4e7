"""Clocks for the parts that do I/O.

State machines take the time as an argument; transports, servers and the asynchronous clients read the clock here.

Tools such as freezegun replace the functions of `time` in every module that imports them, and a timer that follows a
frozen clock never fires. These clocks therefore keep the original functions as argument defaults, which such tools do
not touch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["monotonic_ms", "monotonic_ns", "monotonic_seconds", "now_ms"]


def now_ms(*, _read_ns: Callable[[], int] = time.time_ns) -> int:
    """Return the wall-clock time in milliseconds since the epoch, as in record timestamps."""
    return _read_ns() // 1_000_000


def monotonic_ms(*, _read_ns: Callable[[], int] = time.monotonic_ns) -> int:
    """Return the time in milliseconds of a clock that never runs backwards, for deadlines and intervals."""
    return _read_ns() // 1_000_000


def monotonic_ns(*, _read_ns: Callable[[], int] = time.monotonic_ns) -> int:
    """Return the time of the same clock in nanoseconds, to measure times below a millisecond."""
    return _read_ns()


def monotonic_seconds(*, _read: Callable[[], float] = time.monotonic) -> float:
    """Return the time of the same clock in seconds, as event loops do."""
    return _read()
