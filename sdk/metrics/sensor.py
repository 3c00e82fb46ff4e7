"""A sensor, which records values and provides their sum, rate, average and maximum, in total or over the last minute.

The last minute consists of two 30-second windows, the current and the previous one, as in Kafka's own clients
(`metrics.num.samples`, `metrics.sample.window.ms`), so the numbers are comparable. One thread records; others may read
at any time.

Source: Apache Kafka, `SampledStat`, `Rate`, `Avg`, `Max`.
"""

from __future__ import annotations

from math import inf, nan
from typing import Final, NamedTuple

__all__ = ["WINDOW_MS", "Sensor"]

#: The length of a window, as in Kafka's clients.
WINDOW_MS: Final = 30_000

_SECOND_MS: Final = 1_000


class _Window(NamedTuple):
    begun_ms: float
    values: int
    total: float
    maximum: float


class Sensor:
    """A series of values.

    Attributes:
        count: the number of values.
        total: their sum.
    """

    __slots__ = ("_begun_ms", "_count_before", "_former", "_maximum", "_total_before", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._begun_ms = -inf
        self._count_before = 0
        self._total_before = 0.0
        self._maximum = -inf
        self._former: _Window | None = None

    def record(self, value: float, now_ms: int) -> None:
        """Record a value."""
        if now_ms - self._begun_ms >= WINDOW_MS:
            self._begin(now_ms)
        self.count += 1
        self.total += value
        if value > self._maximum:
            self._maximum = value

    def rate(self, now_ms: int) -> float:
        """Return the sum over the last minute, per second."""
        windows, seconds = self._recent(now_ms)
        return sum(window.total for window in windows) / seconds

    def count_rate(self, now_ms: int) -> float:
        """Return the number of values in the last minute, per second."""
        windows, seconds = self._recent(now_ms)
        return sum(window.values for window in windows) / seconds

    def average(self, now_ms: int) -> float:
        """Return the average over the last minute; NaN if there were no values."""
        windows, _ = self._recent(now_ms)
        count = sum(window.values for window in windows)
        return sum(window.total for window in windows) / count if count else nan

    def maximum(self, now_ms: int) -> float:
        """Return the highest value in the last minute; NaN if there were none."""
        windows, _ = self._recent(now_ms)
        return max((window.maximum for window in windows if window.values), default=nan)

    def _begin(self, now_ms: int) -> None:
        """Begin a window; the previous one is included until it is a minute old."""
        self._former = self._present()
        self._begun_ms, self._maximum = now_ms, -inf
        self._count_before, self._total_before = self.count, self.total

    def _present(self) -> _Window:
        """Return the current window, with the values since it began."""
        values, total = self.count - self._count_before, self.total - self._total_before
        return _Window(self._begun_ms, values, total, self._maximum)

    def _recent(self, now_ms: int) -> tuple[list[_Window], float]:
        """Return the windows of the last minute and their duration in seconds.

        Before the first window is full, a whole window is added to the time, so a burst at the start does not appear as
        a high rate.
        """
        windows = [self._present()]
        if self._former is not None:
            windows.insert(0, self._former)
        recent = [window for window in windows if now_ms - window.begun_ms < 2 * WINDOW_MS]
        begun_ms = recent[0].begun_ms if recent else now_ms
        elapsed_ms = max(now_ms - begun_ms, 0)
        return recent, (elapsed_ms + (WINDOW_MS if elapsed_ms < WINDOW_MS else 0)) / _SECOND_MS
