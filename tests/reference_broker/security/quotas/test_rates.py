"""Rates, throttle times and buckets of tokens follow Kafka's formulas.

Method: record values at given times, and compare with numbers worked out by hand from `Rate`, `TokenBucket` and
`QuotaUtils`, or taken from Kafka's own tests of them.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.quotas.rates import (
    MAX_THROTTLE_MS,
    SampledRate,
    TokenBucket,
    Window,
    throttle_ms,
)

ELEVEN = Window(11, 1_000)


def measured(*values: tuple[float, int], window: Window = ELEVEN) -> SampledRate:
    """Return a rate with values and the times at which they were recorded, in ms."""
    rate = SampledRate(window)
    for value, now_ms in values:
        rate.record(value, now_ms)
    return rate


@pytest.mark.parametrize(
    ("values", "now_ms", "elapsed_ms", "per_second"),
    [
        ([(1_000, 0)], 0, 10_000, 100),  # ten samples that are missing count as complete
        ([(1_000, 0)], 500, 10_500, 1_000 / 10.5),
        ([(1_000, 0), (1_000, 1_500)], 1_500, 10_500, 2_000 / 10.5),
        ([(100, second * 1_000) for second in range(11)], 10_000, 10_000, 110),
        ([(100, second * 1_000) for second in range(12)], 11_000, 10_000, 110),  # the first sample is obsolete
        ([(100, second * 1_000 + 999) for second in range(12)], 11_999, 10_000, 110),
        ([(100, second * 1_000) for second in range(13)], 12_000, 10_000, 110),  # the first sample is used again
        ([(1_000, 0)], 10_999, 10_999, 1_000 / 10.999),
        ([(1_000, 0)], 11_000, 10_000, 0),  # nothing for a whole window
        ([(50, 0), (-50, 10)], 10, 10_010, 0),
    ],
)
def test_rate(values: list[tuple[float, int]], now_ms: int, elapsed_ms: int, per_second: float) -> None:
    rate = measured(*values)
    assert rate.elapsed_ms(now_ms) == elapsed_ms
    assert rate.rate(now_ms) == pytest.approx(per_second)


def test_a_sample_that_overlaps_the_window_counts() -> None:
    """A sample counts as long as something was recorded in it within the window."""
    rate = measured((10, 0), (10, 900), (10, 11_500))
    assert rate.elapsed_ms(11_500) == 11_500
    assert rate.rate(11_500) == pytest.approx(30 / 11.5)


def test_a_window_of_one_sample() -> None:
    rate = measured((10, 0), window=Window(1, 1_000))
    assert rate.elapsed_ms(0) == 1
    assert rate.rate(500) == 20


@pytest.mark.parametrize(
    ("values", "limit", "now_ms", "expected_ms"),
    [
        # Kafka's ClientQuotaManagerTest.testQuotaViolation: 400 bytes every second against 500 bytes per second; then
        # 2,300 bytes at 10,500 ms bring the rate to 600 over 10.5 s, so the delay is 2,100 ms.
        ([*((400, second * 1_000) for second in range(10)), (2_300, 10_500)], 500, 10_500, 2_100),
        ([(100, 0)], 10, 0, 0),
        ([(101, 0)], 10, 0, 100),
        ([(100, 0)], 5, 0, 10_000),
        ([(100, 0)], 0, 0, 0),
        ([(100, 0)], -1, 0, 0),
        ([(1e12, 0)], 1e-3, 0, MAX_THROTTLE_MS),
        ([(100.04, 0)], 10, 0, 4),
        ([(100.005, 0)], 10, 0, 1),  # 0.5 is rounded up, as in Java
    ],
)
def test_throttle_time(values: list[tuple[float, int]], limit: float, now_ms: int, expected_ms: int) -> None:
    assert throttle_ms(measured(*values), limit, now_ms) == expected_ms


def test_a_limited_throttle_time() -> None:
    assert throttle_ms(measured((100, 0)), 5, 0, most_ms=1_000) == 1_000
    assert throttle_ms(measured((100, 0)), 0, 0, most_ms=1_000) == 1_000
    assert throttle_ms(measured((100, 0)), -5, 0, most_ms=1_000) == 0


def test_a_throttled_client_that_waits_is_within_its_limit() -> None:
    rate = measured((150, 0))
    wait_ms = throttle_ms(rate, 10, 0)
    assert wait_ms == 5_000
    assert rate.rate(wait_ms) == 15  # missing samples still count as complete: the rate falls later than assumed
    assert rate.rate(10_999) < 15


def test_bucket() -> None:
    """Kafka's TokenBucketTest: a quota of 5 per second, a window of 100 s; a burst of 560 costs 12 s."""
    bucket = TokenBucket(Window(100, 1_000), 5)
    assert bucket.tokens(0) == 500
    bucket.take(60, 0)
    assert bucket.tokens(0) == 440
    assert bucket.tokens(6_000) == 470
    assert bucket.tokens(30_000) == 500
    bucket.take(560, 30_000)
    assert (bucket.tokens(30_000), bucket.wait_ms(30_000)) == (-60, 12_000)
    assert bucket.tokens(36_000) == -30
    assert (bucket.tokens(42_000), bucket.wait_ms(42_000)) == (0, 0)


def test_a_bucket_holds_no_more_than_the_window() -> None:
    bucket = TokenBucket(Window(2, 1_000), 10)
    bucket.take(-50, 0)
    assert bucket.tokens(0) == 20
    bucket.per_second = 5
    assert bucket.tokens(0) == 10
    bucket.take(11, 0)
    assert bucket.wait_ms(0) == 200
    bucket.per_second = 0
    assert bucket.wait_ms(0) == 0
