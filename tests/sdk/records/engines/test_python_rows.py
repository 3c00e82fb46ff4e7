"""The Python engine's rows are correct byte by byte, in buffers with Arrow's plain layout.

Method: convert a batch with every kind of null; `tests/sdk/records/test_rows.py` compares all engines.
"""

from __future__ import annotations

from array import array

from kafkawire.sdk.records import walk
from kafkawire.sdk.records.engines.python_rows import RowsBuilder
from kafkawire.sdk.records.engines.shared_rows import (
    BATCH_COLUMN_CODES,
    HEADER_BYTES,
    BatchColumns,
    HeaderColumns,
    PlainColumn,
    RowColumns,
)
from tests.sdk.records.conftest import batch_of

ROWS = [(5, b"key", None, ()), (6, None, b"", (("a", b"bc"), ("d", None))), (7, b"k", b"value", (("e", b""),))]


def ends(*numbers: int) -> bytes:
    return array("i", numbers).tobytes()


def batch_columns(*columns: list[int]) -> BatchColumns:
    return BatchColumns(*map(memoryview, map(array, BATCH_COLUMN_CODES, columns)))


def test_buffers() -> None:
    builder = RowsBuilder()
    (batch,) = walk(batch_of(ROWS, base_offset=9))
    builder.begin(batch, position=70)
    assert builder.fill()
    assert (builder.count, builder.size_in_bytes) == (3, 14 + 3 * HEADER_BYTES)
    assert builder.take() == RowColumns(
        3,
        batch_columns([3], [70], [2], [0], [9], [-1], [-1], [-1], [-1]),
        array("q", [9, 10, 11]).tobytes(),
        array("q", [5, 6, 7]).tobytes(),
        PlainColumn(ends(0, 3, 3, 4), b"keyk", b"\x05", 1),
        PlainColumn(ends(0, 0, 0, 5), b"value", b"\x06", 1),
        HeaderColumns(
            PlainColumn(ends(0, 0, 2, 3), b"", b"\x06", 1),
            PlainColumn(ends(0, 1, 2, 3), b"ade", None, 0),
            PlainColumn(ends(0, 2, 2, 2), b"bc", b"\x05", 1),
        ),
    )
    nothing = PlainColumn(ends(0), b"", None, 0)
    assert builder.take() == RowColumns(
        0, batch_columns(*[[]] * 9), b"", b"", nothing, nothing, HeaderColumns(nothing, nothing, nothing)
    )
