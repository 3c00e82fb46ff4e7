"""Durations are counted in the bucket whose bound they do not exceed.

Method: add durations at and around the bounds, and read the cumulative counts.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metrics.histogram import BOUNDS_SECONDS, NS_PER_SECOND, Histogram


def counts(histogram: Histogram) -> dict[float, float]:
    return {sample.le: sample.value for sample in histogram.samples("x") if sample.le is not None}


@pytest.mark.parametrize("bound", BOUNDS_SECONDS)
def test_bounds_are_inclusive(bound):
    histogram = Histogram()
    histogram.add(round(bound * NS_PER_SECOND))
    histogram.add(round(bound * NS_PER_SECOND) + 1)
    found = counts(histogram)
    assert found[bound] == 1
    assert found[float("inf")] == 2
    assert list(found.values()) == sorted(found.values())


def test_sum_and_count():
    histogram = Histogram()
    for seconds in (0, 1, 100):
        histogram.add(seconds * NS_PER_SECOND)
    rest = {sample.suffix: sample.value for sample in histogram.samples("x") if sample.le is None}
    assert rest == {"_count": 3, "_sum": 101.0}
    assert all(sample.labels == ("x",) for sample in histogram.samples("x"))
