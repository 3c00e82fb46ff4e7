"""Numbers are short and accurate; they are never rounded to zero, and never have an unusual unit."""

from __future__ import annotations

import pytest

from kafkawire.sdk.spark.audit import quantities as q


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (q.count_text(0), "0"),
        (q.count_text(950), "950"),
        (q.count_text(2.5), "2.50"),
        (q.count_text(1234), "1.23 k"),
        (q.count_text(45_600_000), "45.6 M"),
        (q.count_text(789e9), "789 G"),
        (q.count_text(999.999), "1.00 k"),
        (q.count_text(9_999), "10.0 k"),
        (q.count_text(99_960), "100 k"),
        (q.count_text(999_499), "999 k"),
        (q.count_text(999_500), "1.00 M"),
        (q.count_text(-999_500), "-1.00 M"),
        (q.count_text(2 * (2**63 - 1)), "18.4 E"),
        (q.count_text(1e23), "1e+05 E"),
        (q.bytes_text(512), "512 B"),
        (q.bytes_text(1536), "1.50 KiB"),
        (q.bytes_text(2**50), "1.00 PiB"),
        (q.bytes_text(1023), "1023 B"),
        (q.bytes_text(1_048_063), "1023 KiB"),
        (q.bytes_text(1_048_575), "1.00 MiB"),
        (q.bytes_text(2**63 - 1), "8.00 EiB"),
        (q.bytes_text(2**90), "1.07e+09 EiB"),
        (q.number_text(1234567), "1,234,567"),
        (q.number_text(None), q.NONE),
        (q.range_text(1, 2000), f"1 {q.NONE} 2,000"),
        (q.range_text(None, 2), q.NONE),
        (q.partitions_text(1, 7), "partition 7"),
        (q.partitions_text(1200, 7), "1,200 partitions"),
        (q.percent_text(0), "0 %"),
        (q.percent_text(0.0001), "< 0.1 %"),
        (q.percent_text(0.125), "12.5 %"),
        (q.percent_text(0.9994), "99.9 %"),
        (q.percent_text(0.9999), "> 99.9 %"),
        (q.percent_text(1), "100 %"),
        (q.ratio_text(None), q.NONE),
        (q.ratio_text(3.456), "3.46\N{MULTIPLICATION SIGN}"),
        (q.span_text(0), "0 ms"),
        (q.span_text(1500), "1.5 s"),
        (q.span_text(999.4), "999 ms"),
        (q.span_text(999.7), "1 s"),
        (q.span_text(59_940), "59.9 s"),
        (q.span_text(59_990), "1 min"),
        (q.span_text(60_000), "1 min"),
        (q.span_text(3_599_400), "59 min 59 s"),
        (q.span_text(3_599_600), "1 h"),
        (q.span_text(86_399_999), "1 d"),
        (q.span_text(3_600_000), "1 h"),
        (q.span_text(5_400_000), "1 h 30 min"),
        (q.span_text(90_000_000), "1 d 1 h"),
        (q.time_text(1_700_000_000_999), "2023-11-14 22:13:20"),
        (q.time_text(None), q.NONE),
        (q.time_text(2**62), q.NONE),
        (q.day_text(1_700_000_000_000, 1000), "22:13:20"),
        (q.day_text(1_700_000_000_000, 3_600_000), "22:13"),
        (q.day_text(1_699_920_000_000, 3_600_000), "14 Nov"),
        (q.day_text(1_700_000_000_000, 86_400_000), "14 Nov"),
        (q.day_text(1_700_000_000_000, 10**11), "Nov 2023"),
        (q.day_text(2**62, 10**11), "Dec 9999"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert text == expected
