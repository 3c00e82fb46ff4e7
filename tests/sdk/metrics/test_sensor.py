"""A sensor's numbers are those that Kafka's own clients would report for the same values.

Method: compare with numbers worked out by hand from the rules of Apache Kafka's `Rate`.
"""

from __future__ import annotations

from math import isnan

import pytest

from kafkawire.sdk.metrics.sensor import WINDOW_MS, Sensor


def test_without_values() -> None:
    sensor = Sensor()
    assert (sensor.count, sensor.total, sensor.rate(0), sensor.count_rate(10**9)) == (0, 0, 0, 0)
    assert isnan(sensor.average(0))
    assert isnan(sensor.maximum(0))


@pytest.mark.parametrize(
    ("values", "now_ms", "rate", "count_rate", "average", "maximum"),
    [
        # (time, value): the first window is not full, so another full window is added.
        ([(1_000, 62.0)], 2_000, 2.0, 1 / 31, 62.0, 62.0),
        ([(1_000, 3.0), (1_500, 1.0)], 31_000, 4 / 30, 2 / 30, 2.0, 3.0),
        # There are two windows; the first is older than 30 s.
        ([(0, 10.0), (31_000, 2.0), (40_000, 3.0)], 50_000, 15 / 50, 3 / 50, 5.0, 10.0),
        # The first window is a minute old.
        ([(0, 10.0), (31_000, 2.0)], 61_000, 2 / 30, 1 / 30, 2.0, 2.0),
        # The second window begins when the first is 30 s old, not later.
        ([(0, 10.0), (30_000, 2.0)], 60_000, 2 / 30, 1 / 30, 2.0, 2.0),
        # After a long pause, only the latest window is left.
        ([(0, 10.0), (500_000, -4.0)], 500_000, -4 / 30, 1 / 30, -4.0, -4.0),
    ],
)
def test_the_last_minute(
    values: list[tuple[int, float]], now_ms: int, rate: float, count_rate: float, average: float, maximum: float
) -> None:
    sensor = Sensor()
    for time_ms, value in values:
        sensor.record(value, time_ms)
    assert sensor.rate(now_ms) == pytest.approx(rate)
    assert sensor.count_rate(now_ms) == pytest.approx(count_rate)
    assert sensor.average(now_ms) == pytest.approx(average)
    assert sensor.maximum(now_ms) == pytest.approx(maximum)
    assert (sensor.count, sensor.total) == (len(values), sum(value for _, value in values))


def test_silence_ends_a_rate() -> None:
    sensor = Sensor()
    sensor.record(5, 1_000)
    assert sensor.rate(1_000 + 2 * WINDOW_MS - 1) > 0
    assert sensor.rate(1_000 + 2 * WINDOW_MS) == 0
    assert isnan(sensor.average(1_000 + 2 * WINDOW_MS))
    assert sensor.total == 5
