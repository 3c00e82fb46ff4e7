"""Sums wrap around as Java's do.

Method: add numbers at the limits of 32 and 64 bits.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.records.java_integers import INT32_MAX, int64, sequence_after


@pytest.mark.parametrize(
    ("base", "delta", "expected"),
    [
        (-1, 5, 4),
        (-1, -1, 2**31 - 2),
        (-1, -(2**31), 2**31 - 1),
        (-(2**31), 0, -(2**31)),
        (-(2**31), -1, 2**31 - 1),
        (-(2**31), -(2**31), 0),
        (-(2**31), 2**31 - 1, -1),
        (0, -(2**31), 0),
        (2**31 - 1, -(2**31), 2**31 - 1),
        (0, 0, 0),
        (INT32_MAX, 0, 2**31 - 1),
        (INT32_MAX, 1, 0),
        (2**31 - 2, 3, 1),
        (35, -1, 34 - 2**31),
        (0, -1, 2**31 - 1),
    ],
)
def test_sequence_numbers_wrap(base: int, delta: int, expected: int) -> None:
    assert sequence_after(base, delta) == expected


def test_int64() -> None:
    assert [int64(value) for value in (2**63, -(2**63) - 1, 5, -5)] == [-(2**63), 2**63 - 1, 5, -5]
