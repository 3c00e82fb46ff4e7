"""Records as columns: offsets, timestamps, keys, values, without an object for each record.

Keys and values are Arrow views (BinaryView): sixteen bytes each, which point into the fetched bytes, or into the
decompressed ones. Making Arrow arrays costs as much as decoding hundreds of records, so join many batches in one call.
`pyarrow` is needed for Arrow's own objects alone.

Source: Apache Arrow, columnar format, "Variable-size Binary View Layout".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kafkawire.sdk.protocol.reusable_memory import take_memory
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.selection import built
from kafkawire.sdk.records.record import Headers, Record

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Columns", "OffsetRange", "ReadableBatch", "ViewColumn", "columns", "cut_columns"]

#: The offsets of the first record that is wanted and of the first that no longer is; None if all are wanted.
OffsetRange = tuple[int, int] | None

#: In the machine's byte order, as Arrow has it.
_INLINE = struct.Struct("=i12s")
_POINTER = struct.Struct("=i4sii")
_INT64 = struct.Struct("=q")
_INLINE_BYTES = 12
#: Of columns in memory, in bytes: what Arrow recommends.
_ALIGNMENT = 64


class ReadableBatch(Protocol):
    """What columns can be made from: a batch of any magic, of any engine."""

    def views(self) -> Iterator[Record]:
        """Yield the records in order."""
        ...


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """Byte strings in Arrow's view layout.

    Attributes:
        views: sixteen bytes for each.
        validity: bit `i % 8` of byte `i // 8` is 0 where the value is null; None where no value is.
        data: the buffers that views point into, by their number.
        nulls: how many values are null.
    """

    views: Buffer
    validity: Buffer | None
    data: tuple[Buffer, ...]
    nulls: int

    def __reduce__(self) -> tuple[Any, ...]:
        validity = None if self.validity is None else bytes(self.validity)
        return ViewColumn, (bytes(self.views), validity, tuple(map(bytes, self.data)), self.nulls)

    def at(self, index: int) -> bytes | None:
        """Return one of the byte strings, None for a null.

        Raises:
            IndexError: the column is shorter, or the index below 0.
        """
        count = len(self.views) // _INLINE.size
        if not 0 <= index < count:
            raise IndexError(f"value {index} of {count}")
        if self.validity is not None and not self.validity[index // 8] >> index % 8 & 1:
            return None
        size, content = _INLINE.unpack_from(self.views, index * _INLINE.size)
        if size <= _INLINE_BYTES:
            return bytes(content[:size])
        _, _, number, start = _POINTER.unpack_from(self.views, index * _POINTER.size)
        return bytes(self.data[number][start : start + size])


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns.

    Attributes:
        count: how many records.
        offsets: int64 in the machine's byte order, one for each.
        timestamps_ms: the same, milliseconds since the epoch.
        keys: of the records.
        values: of the records.
        headers: of each record; None if they were not asked for.
    """

    count: int
    offsets: Buffer
    timestamps_ms: Buffer
    keys: ViewColumn
    values: ViewColumn
    headers: tuple[Headers, ...] | None

    def __reduce__(self) -> tuple[Any, ...]:
        # The buffers belong to both columns, and are copied once.
        data = tuple(map(bytes, self.keys.data))
        keys, values = replace(self.keys, data=data), self.values
        if values.data is self.keys.data:
            values = replace(values, data=data)
        return Columns, (self.count, bytes(self.offsets), bytes(self.timestamps_ms), keys, values, self.headers)

    def to_arrow(self, *, copy: bool = False) -> pyarrow.RecordBatch:
        """Return an Arrow record batch with the columns offset, timestamp, key, value and, if there, headers.

        Args:
            copy: whether keys and values are copied into plain `binary` arrays, which every reader of Arrow knows.
        """
        import pyarrow

        arrays = self.arrow_arrays(pyarrow.int64())
        if copy:
            for name in ("key", "value"):
                arrays[name] = arrays[name].cast(pyarrow.binary())
        return pyarrow.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    def arrow_arrays(self, timestamp: pyarrow.DataType) -> dict[str, pyarrow.Array]:
        """Return Arrow arrays by name, see `to_arrow`.

        Args:
            timestamp: the type of the timestamps, of 64 bits.
        """
        import pyarrow

        array, buffer = pyarrow.Array.from_buffers, pyarrow.py_buffer
        data = list(map(buffer, self.values.data))
        arrays = {
            "offset": array(pyarrow.int64(), self.count, [None, buffer(self.offsets)], 0),
            "timestamp": array(timestamp, self.count, [None, buffer(self.timestamps_ms)], 0),
        }
        for name, column in (("key", self.keys), ("value", self.values)):
            validity = None if column.validity is None else buffer(column.validity)
            buffers = [validity, buffer(column.views), *data]
            arrays[name] = array(pyarrow.binary_view(), self.count, buffers, column.nulls)
        if self.headers is not None:
            pairs = [[{"key": name, "value": content} for name, content in headers] for headers in self.headers]
            header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
            arrays["headers"] = pyarrow.array(pairs, pyarrow.list_(header))
        return arrays


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
        return _columns_of_records(batches, ranges, headers)
    taken: list[tuple[memoryview, list[int]]] = []

    def take(count: int) -> tuple[memoryview, list[int]]:
        taken.append(_memory(count))
        return taken[0]

    counts, null_keys, null_values, found = built.read_columns(batches, ranges, take)
    (view, (offsets, timestamps, keys, key_bits, values, value_bits)) = taken[0]
    view, count, data = view.toreadonly(), sum(counts), tuple(found)
    key_column = ViewColumn(
        view[keys : keys + count * _INLINE.size],
        view[key_bits : key_bits + _bytes_of_bits(count)] if null_keys else None,
        data,
        null_keys,
    )
    value_column = ViewColumn(
        view[values : values + count * _INLINE.size],
        view[value_bits : value_bits + _bytes_of_bits(count)] if null_values else None,
        data,
        null_values,
    )
    found_headers = _headers(batches, ranges) if headers else None
    offset_column = view[offsets : offsets + count * _INT64.size]
    timestamp_column = view[timestamps : timestamps + count * _INT64.size]
    return Columns(count, offset_column, timestamp_column, key_column, value_column, found_headers), counts


def _memory(count: int) -> tuple[memoryview, list[int]]:
    """Return memory for columns of so many rows, and where in it each begins."""
    places, end = [], 0
    for size in (_INT64.size, _INT64.size, _INLINE.size, 0, _INLINE.size, 0):
        places.append(end)
        end += -(-(count * size or _bytes_of_bits(count)) // _ALIGNMENT) * _ALIGNMENT
    return take_memory(end), places


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8


def _chosen(batch: ReadableBatch, wanted: OffsetRange) -> Iterator[Record]:
    if wanted is None:
        return batch.views()
    return (record for record in batch.views() if wanted[0] <= record.offset < wanted[1])


def _headers(batches: Sequence[ReadableBatch], ranges: Sequence[OffsetRange]) -> tuple[Headers, ...]:
    pairs = zip(batches, ranges, strict=True)
    return tuple(record.headers for batch, wanted in pairs for record in _chosen(batch, wanted))


def _columns_of_records(
    batches: Sequence[ReadableBatch], ranges: Sequence[OffsetRange], with_headers: bool
) -> tuple[Columns, list[int]]:
    """Make columns from records; keys and values are copied into one buffer."""
    offsets, timestamps = bytearray(), bytearray()
    data = bytearray()
    keys, values = _Views(data), _Views(data)
    counts = []
    for batch, wanted in zip(batches, ranges, strict=True):
        before = len(offsets)
        for record in _chosen(batch, wanted):
            offsets += _INT64.pack(record.offset)
            timestamps += _INT64.pack(record.timestamp_ms)
            keys.add(record.key)
            values.add(record.value)
        counts.append((len(offsets) - before) // _INT64.size)
    buffers: tuple[Buffer, ...] = (bytes(data),)
    headers = _headers(batches, ranges) if with_headers else None
    key_column, value_column = keys.column(buffers), values.column(buffers)
    return Columns(sum(counts), bytes(offsets), bytes(timestamps), key_column, value_column, headers), counts


class _Views:
    """A view column that grows.

    Args:
        data: what its views point into.
    """

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._views = bytearray()
        self._is_valid: list[bool] = []

    def add(self, content: bytes | None) -> None:
        """Add a byte string, None for a null."""
        self._is_valid.append(content is not None)
        if content is None or len(content) <= _INLINE_BYTES:
            self._views += _INLINE.pack(len(content or b""), content or b"")
            return
        self._views += _POINTER.pack(len(content), content, 0, len(self._data))  # of the content the first four bytes
        self._data += content

    def column(self, buffers: tuple[Buffer, ...]) -> ViewColumn:
        """Return the column."""
        validity = bytearray((len(self._is_valid) + 7) // 8)
        for index, is_valid in enumerate(self._is_valid):
            validity[index // 8] |= is_valid << index % 8
        nulls = self._is_valid.count(False)
        return ViewColumn(bytes(self._views), bytes(validity) if nulls else None, buffers, nulls)
