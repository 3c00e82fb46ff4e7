"""The columns that Python creates match the records, for batches of any magic; `test_columns.py` tests all engines.

Method: convert a batch and a message together, with and without ranges and headers.
"""

from __future__ import annotations

from kafkawire.sdk.records import walk
from kafkawire.sdk.records.engines.python_columns import headers_of, read_columns
from tests.sdk.records.conftest import batch_of, message_set


def test_columns_of_any_magic() -> None:
    batches = list(walk(batch_of(base_offset=5) + message_set(1)))
    found, counts = read_columns(batches, [(6, 8), None], True)
    records = [*batches[0].records()[1:3], *batches[1].records()]
    assert (found.count, counts) == (3, [2, 1])
    assert list(memoryview(found.offsets).cast("q")) == [record.offset for record in records]
    assert [found.keys.at(row) for row in range(3)] == [record.key for record in records]
    assert [found.values.at(row) for row in range(3)] == [record.value for record in records]
    assert found.headers == headers_of(batches, [(6, 8), None]) == tuple(record.headers for record in records)
    assert read_columns(batches, [None, None], False)[0].headers is None
