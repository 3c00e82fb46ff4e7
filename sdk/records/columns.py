"""Decode records into columns (offsets, timestamps, keys, values), without an object for each record.

Keys and values are Arrow views (BinaryView) of sixteen bytes each, which point into the fetched or decompressed bytes.
Creating Arrow arrays costs as much as decoding hundreds of records, so decode many batches in one call. `pyarrow` is
needed only to create Arrow objects.
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

#: Alignment of columns in memory, in bytes, as Arrow recommends.
_ALIGNMENT = 64


def columns(batches: Iterable[ReadableBatch], *, headers: bool = False) -> Columns:
    """Return the records of several batches as columns.

    Args:
        batches: the batches in order, of any magic.
        headers: whether to decode headers too, which creates an object for each record with headers.

    Raises:
        DecodeError: a batch is broken.
    """
    sources = list(batches)
    return cut_columns(sources, [None] * len(sources), headers=headers)[0]


def cut_columns(
    batches: Sequence[ReadableBatch], ranges: Sequence[OffsetRange], *, headers: bool = False
) -> tuple[Columns, list[int]]:
    """Return selected records of several batches as columns, and the number of records from each batch.

    Args:
        batches: the batches in order, of any magic.
        ranges: the wanted records of each batch.
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
    """Allocate memory for columns with `count` rows; return it with the position of each column."""
    places, end = [], 0
    for size in (INT64.size, INT64.size, INLINE.size, 0, INLINE.size, 0):
        places.append(end)
        end += -(-(count * size or _bytes_of_bits(count)) // _ALIGNMENT) * _ALIGNMENT
    return take_memory(end), places


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8
