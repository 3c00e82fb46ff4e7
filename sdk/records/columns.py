"""Records as columns: offsets, timestamps, keys, values, without an object for each record.

Keys and values are Arrow views (BinaryView): sixteen bytes each, which point into the fetched bytes, or into the
decompressed ones. Making Arrow arrays costs as much as decoding hundreds of records, so join many batches in one call.
`pyarrow` is needed for Arrow's own objects alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkawire.sdk.protocol.reusable_memory import take_memory
from kafkawire.sdk.records.engines import python_columns
from kafkawire.sdk.records.engines.python_columns import headers_of
from kafkawire.sdk.records.engines.selection import built
from kafkawire.sdk.records.engines.shared_columns import (
    INLINE,
    INT64,
    Columns,
    OffsetRange,
    ReadableBatch,
    ViewColumn,
)

__all__ = ["Columns", "OffsetRange", "ReadableBatch", "ViewColumn", "columns", "cut_columns"]

#: Of columns in memory, in bytes: what Arrow recommends.
_ALIGNMENT = 64


def columns(batches: Iterable[ReadableBatch], *, headers: bool = False) -> Columns:
    """Return the records of several batches as columns.

    Args:
        batches: in order, of any magic.
        headers: whether the headers are decoded too; they are an object for each record that has some.

    Raises:
        DecodeError: a batch is broken.
    """
    sources = list(batches)
    return cut_columns(sources, [None] * len(sources), headers=headers)[0]


def cut_columns(
    batches: Sequence[ReadableBatch], ranges: Sequence[OffsetRange], *, headers: bool = False
) -> tuple[Columns, list[int]]:
    """Return some of the records of several batches as columns, and how many there are of each batch.

    Args:
        batches: in order, of any magic.
        ranges: of each batch, which records are wanted.
        headers: see `columns`.

    Raises:
        DecodeError: a batch is broken.
    """
    if built is None or not all(isinstance(batch, built.RecordBatch) for batch in batches):
        return python_columns.read_columns(batches, ranges, headers)
    taken: list[tuple[memoryview, list[int]]] = []

    def take(count: int) -> tuple[memoryview, list[int]]:
        taken.append(_memory(count))
        return taken[0]

    counts, null_keys, null_values, found = built.read_columns(batches, ranges, take)
    (view, (offsets, timestamps, keys, key_bits, values, value_bits)) = taken[0]
    view, count, data = view.toreadonly(), sum(counts), tuple(found)
    key_column = ViewColumn(
        view[keys : keys + count * INLINE.size],
        view[key_bits : key_bits + _bytes_of_bits(count)] if null_keys else None,
        data,
        null_keys,
    )
    value_column = ViewColumn(
        view[values : values + count * INLINE.size],
        view[value_bits : value_bits + _bytes_of_bits(count)] if null_values else None,
        data,
        null_values,
    )
    found_headers = headers_of(batches, ranges) if headers else None
    offset_column = view[offsets : offsets + count * INT64.size]
    timestamp_column = view[timestamps : timestamps + count * INT64.size]
    return Columns(count, offset_column, timestamp_column, key_column, value_column, found_headers), counts


def _memory(count: int) -> tuple[memoryview, list[int]]:
    """Return memory for columns of so many rows, and where in it each begins."""
    places, end = [], 0
    for size in (INT64.size, INT64.size, INLINE.size, 0, INLINE.size, 0):
        places.append(end)
        end += -(-(count * size or _bytes_of_bits(count)) // _ALIGNMENT) * _ALIGNMENT
    return take_memory(end), places


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8
