"""The clocks of the parts that do I/O.

State machines take the time as an argument; transports, servers and the asynchronous clients read it here.
"""

from __future__ import annotations

import time

__all__ = ["monotonic_ms", "monotonic_ns", "now_ms"]


def now_ms() -> int:
    """Return the wall clock in milliseconds since the epoch, as in record timestamps."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return a clock in milliseconds that never runs backwards, for deadlines and intervals."""
    return time.monotonic_ns() // 1_000_000


def monotonic_ns() -> int:
    """Return the clock of `monotonic_ms` in nanoseconds, to measure times below a millisecond."""
    return time.monotonic_ns()
