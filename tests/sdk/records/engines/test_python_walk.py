"""Each item in a buffer is read as a batch of its magic, or an error says why not; `test_walk.py` tests all engines.

Method: walk a batch and a message whose first fields are changed.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.records.engines.python_walk import batch_at, walk
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.message_set import MessageBatch
from tests.sdk.records.conftest import batch_of, message_set

LIMIT = MAX_DECOMPRESSED_BYTES


def test_the_magic_chooses() -> None:
    data = batch_of() + message_set(1)
    first, second = walk(memoryview(data), True, LIMIT, RecordBatch)
    assert isinstance(first, RecordBatch)
    assert isinstance(second, MessageBatch)
    assert isinstance(batch_at(data, first.size_in_bytes, LIMIT), MessageBatch)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        (
            {8: 0, 9: 0, 10: 0, 11: 1},
            "^batch_length at byte 8: the length is 1 bytes, but no batch or message has fewer than ",
        ),
        ({16: 9}, "^magic at byte 16: magic 9 is unknown; expected 0 to 2$"),
    ],
)
def test_what_is_no_batch(change: dict[int, int], expected: str | None) -> None:
    data = bytearray(batch_of())
    for place, value in change.items():
        data[place] = value
    if expected is None:
        assert batch_at(data, 0, LIMIT).size_in_bytes == len(data)
        return
    with pytest.raises(DecodeError, match=expected):
        batch_at(data, 0, LIMIT)


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 60])
def test_parts_of_a_batch(size: int) -> None:
    with pytest.raises(PartialBatch):
        batch_at(batch_of()[:size], 0, LIMIT)
