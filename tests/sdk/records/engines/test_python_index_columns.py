"""The extension and Python read the same columns from an index, and notice damage.

Method: read columns packed by hand, change every byte of a small file, and read random numbers with both.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Callable
from itertools import pairwise

import pytest

from kafkawire.sdk.records.engines import python_index_columns, selection
from kafkawire.sdk.records.index_columns import index_columns
from tests.needs import EXTENSION

FORMATS = {4: ">ii", 8: ">qi"}
IndexColumns = Callable[[bytes, int], tuple["array[int]", "array[int]"] | None]
KINDS: list[IndexColumns] = [index_columns, python_index_columns.index_columns]


def packed(key_bytes: int, pairs: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(FORMATS[key_bytes], *pair) for pair in pairs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_bytes", [4, 8])
@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(5, 7)],
        [(-(2**31), -(2**31)), (-1, 0), (0, 0), (2**31 - 1, 2**31 - 1)],
        [(n, n * 4100) for n in range(900)],
    ],
)
def test_columns(kind: IndexColumns, key_bytes: int, pairs: list[tuple[int, int]]) -> None:
    columns = kind(packed(key_bytes, pairs), key_bytes)
    assert columns is not None
    keys, values = columns
    assert keys == array("i" if key_bytes == 4 else "q", [key for key, _ in pairs])
    assert values == array("i", [value for _, value in pairs])
    assert keys.itemsize == key_bytes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_bytes", [4, 8])
@pytest.mark.parametrize("pairs", [[(5, 1), (5, 2)], [(5, 1), (4, 2)], [(5, 2), (6, 1)], [(1, 1), (2, 2), (3, 1)]])
def test_what_does_not_rise_is_damaged(kind: IndexColumns, key_bytes: int, pairs: list[tuple[int, int]]) -> None:
    assert callable(kind)
    assert kind(packed(key_bytes, pairs), key_bytes) is None


def test_large_keys() -> None:
    pairs = [(-(2**63), 0), (0, 0), (2**63 - 1, 5)]
    assert index_columns(packed(8, pairs), 8) == (array("q", [key for key, _ in pairs]), array("i", [0, 0, 5]))


@EXTENSION.mark
@pytest.mark.parametrize("key_bytes", [2, 0, -4, -8, 2**63 - 1, -(2**63)])
def test_keys_of_another_size(key_bytes: int) -> None:
    assert selection.built is not None
    with pytest.raises(ValueError, match=f"keys of {key_bytes} bytes, 4 or 8 are possible"):
        selection.built.index_columns(b"abcd", key_bytes)


@pytest.mark.parametrize("key_bytes", [4, 8])
def test_random_numbers_are_the_same_in_both(key_bytes: int) -> None:
    chance = random.Random(key_bytes)
    damaged = 0
    for _ in range(500):
        keys = sorted(chance.randrange(-9, 99) for _ in range(chance.randrange(9)))
        values = sorted(chance.randrange(-9, 99) for _ in keys)
        if chance.random() < 0.2:
            chance.shuffle(values)
        content = packed(key_bytes, list(zip(keys, values, strict=True)))
        expected = all(a < b for a, b in pairwise(keys)) and all(a <= b for a, b in pairwise(values))
        damaged += not expected
        for kind in KINDS:
            assert (kind(content, key_bytes) is not None) is expected
        assert index_columns(content, key_bytes) == python_index_columns.index_columns(content, key_bytes)
    assert 50 < damaged < 450
