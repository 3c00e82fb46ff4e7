"""The two clocks return the times that their names promise.

Method: compare them with the standard library's clocks, which have a finer resolution.
"""

from __future__ import annotations

import time

from kafkawire.sdk.clock import monotonic_ms, monotonic_ns, now_ms


def test_now_ms_is_the_wall_clock_in_milliseconds() -> None:
    before = int(time.time() * 1000)
    assert before <= now_ms() <= int(time.time() * 1000) + 1


def test_monotonic_ms_never_goes_back() -> None:
    readings = [monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)
    assert abs(readings[-1] - time.monotonic() * 1000) < 1000
    assert 0 <= monotonic_ns() // 1_000_000 - readings[-1] < 1000
