"""The extension fills columns only in memory with enough room for them, whatever its arguments.

Method: make calls like those in `columns.py`, with every kind of wrong batch, range and memory.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.records import record_batch_class
from kafkawire.sdk.records.engines import selection as engines
from tests.needs import EXTENSION
from tests.sdk.records.conftest import batch_of

pytestmark = EXTENSION.mark


def test_columns_of_what_is_no_batch() -> None:
    module: Any = engines.built
    for wrong in (None, 5, b"", record_batch_class("python")):
        with pytest.raises(TypeError):
            module.read_columns([wrong], [None], lambda count: (bytearray(10_000), [0] * 6))


def test_columns_into_memory_that_does_not_fit() -> None:
    module: Any = engines.built
    batches = [module.RecordBatch(batch_of()), module.RecordBatch(batch_of())]
    rows = sum(batch.records_count for batch in batches)
    places = [0, 64, 128, 256, 320, 448]
    assert sum(module.read_columns(batches, [None, None], lambda _: (bytearray(512), places))[0]) == rows == 8
    for memory, wrong in (
        (bytes(512), places),
        (bytearray(448), places),
        (bytearray(512), [0, 63, 128, 256, 320, 448]),
        (bytearray(512), [-1, 64, 128, 256, 320, 448]),
        (bytearray(512), [0, 64, 128, 256, 320, 449 + 63]),
        (bytearray(512), [0, 64, 128, 255, 256, 448]),
        (bytearray(512), [2**40, 2**41, 2**42, 2**43, 2**44, 2**45]),
        (bytearray(512), places[:5]),
        (bytearray(512), None),
        (None, places),
    ):
        with pytest.raises((ValueError, TypeError)):
            module.read_columns(batches, [None, None], lambda _, found=(memory, wrong): found)
    for ranges in ([], [None], [None, 5], [None, (1,)], [(None, 2), None], None):
        with pytest.raises((TypeError, ValueError, IndexError)):
            module.read_columns(batches, ranges, lambda _: (bytearray(512), places))

    def take(_: int) -> Any:
        batches.clear()  # the change comes too late to matter
        return bytearray(512), places

    assert sum(module.read_columns(batches, [None, None], take)[0]) == rows
