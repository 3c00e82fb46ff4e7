"""A micro-batch takes approximately its offset limit, from every partition that has records, and always advances."""

from __future__ import annotations

import pytest

from kafkawire.sdk.spark.offset_limits import limited_by_offsets


@pytest.mark.parametrize(
    ("ranges", "limit", "expected"),
    [
        ({}, 5, {}),
        ({"a-0": (0, 10), "a-1": (5, 15)}, 20, {"a-0": 10, "a-1": 15}),
        ({"a-0": (0, 10), "a-1": (5, 35)}, 20, {"a-0": 5, "a-1": 20}),
        ({"a-0": (0, 1), "a-1": (0, 1000)}, 100, {"a-0": 1, "a-1": 99}),
        ({"a-0": (7, 9), "a-1": (0, 1000)}, 1, {"a-0": 8, "a-1": 1}),
    ],
)
def test_offsets(ranges: dict[str, tuple[int, int]], limit: int, expected: dict[str, int]) -> None:
    assert limited_by_offsets(ranges, limit) == expected
