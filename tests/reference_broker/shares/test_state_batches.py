"""Overlapping state batches are combined: of each offset, the state with the higher rank remains.

Method: combine made-up batches, and compare with a table of single offsets.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.shares.state_batches import StateBatch, combined
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET

B = StateBatch


@pytest.mark.parametrize(
    ("stored", "new", "start_offset", "expected"),
    [
        ([], [], -1, []),
        ([B(100, 110, 1, 0)], [], -1, [B(100, 110, 1, 0)]),
        ([], [B(100, 110, 1, 0)], 105, [B(105, 110, 1, 0)]),
        ([B(100, 110, 1, 0)], [B(111, 119, 2, 2)], 120, []),
        ([B(100, 110, 1, 0)], [B(111, 119, 1, 0)], -1, [B(100, 119, 1, 0)]),
        ([B(100, 110, 1, 0)], [B(112, 119, 1, 0)], -1, [B(100, 110, 1, 0), B(112, 119, 1, 0)]),
        ([B(100, 110, 1, 0)], [B(100, 110, 1, 2)], -1, [B(100, 110, 1, 2)]),
        ([B(100, 110, 3, 0)], [B(100, 110, 1, 2)], -1, [B(100, 110, 3, 0)]),
        ([B(100, 110, 1, 0)], [B(105, 115, 2, 0)], -1, [B(100, 104, 1, 0), B(105, 115, 2, 0)]),
        ([B(100, 110, 2, 0)], [B(105, 115, 1, 0)], -1, [B(100, 110, 2, 0), B(111, 115, 1, 0)]),
        (
            [B(100, 120, 1, 0)],
            [B(105, 110, 2, 0)],
            -1,
            [B(100, 104, 1, 0), B(105, 110, 2, 0), B(111, 120, 1, 0)],
        ),
        ([B(100, 120, 2, 2)], [B(105, 110, 1, 0)], -1, [B(100, 120, 2, 2)]),
        ([B(100, 120, 1, 0)], [B(105, 110, 1, 0)], -1, [B(100, 120, 1, 0)]),
    ],
)
def test_combinations(stored, new, start_offset, expected):
    assert combined(stored, new, start_offset) == expected


def batches():
    part = st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(1, 3), st.sampled_from([0, 2, 4]))
    return st.lists(part.map(lambda given: B(given[0], given[0] + given[1], *given[2:])), max_size=6)


@given(batches(), batches(), st.sampled_from([UNKNOWN_OFFSET, 0, 10]))
def test_each_offset_has_the_state_of_the_highest_rank(stored, new, start_offset):
    known = combined([], stored, start_offset)
    table = {}
    for first, last, *rank in [*known, *new]:
        for offset in range(max(first, start_offset), last + 1):
            table[offset] = max(table.get(offset, [0, 0]), rank)
    found = combined(known, new, start_offset)
    assert found == sorted(found)
    offsets = [offset for first, last, *_ in found for offset in range(first, last + 1)]
    assert len(offsets) == len(set(offsets))
    assert {offset: rank for first, last, *rank in found for offset in range(first, last + 1)} == table
