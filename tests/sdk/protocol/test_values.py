"""Field values are compared by content, and errors show any value in a few characters.

Method: compare pairs of sequences and buffers; show numbers, texts and reprs at and beyond each limit.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from kafkawire.sdk.protocol.values import NOT_SET, digits, equal, hidden_slot, quoted


def test_equal() -> None:
    assert equal([1, (2, b"x")], (1, [2, bytearray(b"x")]))
    assert not equal([1], [1, 2])


def test_a_hidden_slot() -> None:
    assert hidden_slot("current_leader") == "_current_leader"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ([], (), True),
        ([1, 2], (1, 2), True),
        ([1, 2], (1, 3), False),
        ([1, 2], (3, 2), False),
        ([1, 2], (1,), False),
        ([[1]], ((1,),), True),
        ([[1], [2]], ((1,), (3,)), False),
    ],
)
def test_sequences_are_equal_element_by_element(left: Any, right: Any, same: bool) -> None:
    assert equal(left, right) is same
    assert equal(right, left) is same


def test_digits() -> None:
    assert digits(-5) == "-5"
    assert digits(True) == "1"
    assert digits(2**256 - 1) == str(2**256 - 1)
    assert digits(-(10**5000)) == "a number of 16610 bits"


class Failing:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (5, "5"),
        (True, "True"),
        pytest.param(10**5000, "a number of 16610 bits", id="huge"),
        ([10**5000], "<list>"),
        (Failing(), "<Failing>"),
        ("x" * 58, f"'{'x' * 58}'"),
        ("x" * 1000, f"'{'x' * 59}"),
        (b"x" * 1000, f"b'{'x' * 58}"),
        ([1] * 1000, "[" + "1, " * 19 + "1,"),
        (NOT_SET, "<not set>"),
    ],
)
def test_quoted(value: Any, text: str) -> None:
    assert quoted(value) == text


def test_quoted_with_another_limit() -> None:
    assert quoted("x" * 1000, 3) == "'xx"
    assert quoted("x" * 1000, None) == repr("x" * 1000)


def test_of_something_long_no_more_is_read_than_is_shown() -> None:
    text = "x" * 10_000_000
    tracemalloc.start()
    try:
        assert quoted(text, 3) == "'xx"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
