"""Pauses double, stay within 20 % of jitter, and never exceed the longest one.

Method: a table of failures and random numbers, worked out from KIP-580.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "fraction", "expected"),
    [
        (1, 0.5, 100),
        (1, 0.0, 80),
        (1, 1.0, 120),
        (2, 0.5, 200),
        (3, 0.0, 320),
        (4, 0.5, 800),
        (5, 0.0, 1000),
        (10_000, 1.0, 1000),
    ],
)
def test_pause(failures: int, fraction: float, expected: float) -> None:
    assert Backoff(100, 1000).pause_ms(failures, fraction) == pytest.approx(expected)


def test_no_pause() -> None:
    assert Backoff(0, 0).pause_ms(7, 0.9) == 0
