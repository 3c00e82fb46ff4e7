"""Durations are read as Java reads them.

Method: read texts that Apache Kafka 4.3.0 was given as `share.auto.offset.reset`, and compare with its answers.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.durations import parse_duration_ns

MS, SECOND = 10**6, 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("PT0S", 0),
        ("-PT0S", 0),
        ("PT1.5S", 1_500 * MS),
        ("PT1,5S", 1_500 * MS),
        ("PT1.S", SECOND),
        ("PT1.001S", 1_001 * MS),
        ("PT0.123456789S", 123_456_789),
        ("PT-0.5S", -500 * MS),
        ("-PT-1S", SECOND),
        ("-PT1S", -SECOND),
        ("pt2m", 120 * SECOND),
        ("PT3H4M", 11_040 * SECOND),
        ("+PT+1H-5M", 3_300 * SECOND),
        ("P1D", 86_400 * SECOND),
        ("P1DT2H3M4S", 93_784 * SECOND),
        ("P106751991167300D", 106_751_991_167_300 * 86_400 * SECOND),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert parse_duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "P1W", "PT.5S", "PT1.5M", "PT0.1234567891S", " PT1H", "PT1H ", "1H", "PT1M2H", "PT\u0663H",
     "P106751991167301D", f"P{'9' * 5_000}D"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration_ns(text) is None
