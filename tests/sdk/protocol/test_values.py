"""Field values compare by what they hold.

Method: pairs of sequences and buffers.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.protocol.values import equal, hidden_slot


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
