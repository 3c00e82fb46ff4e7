"""Records as columns: offsets, timestamps, keys, values, without an object for each record.

Keys and values are Arrow views (BinaryView): sixteen bytes each, which point into the fetched bytes, or into the
decompressed ones. Making Arrow arrays costs as much as decoding hundreds of records, so join many batches in one call.
`pyarrow` is needed for Arrow's own objects alone.

Source: Apache Arrow, columnar format, "Variable-size Binary View Layout".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.selection import built
from kafkawire.sdk.records.record import BinaryColumn, Headers, Record

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Columns", "ReadableBatch", "ViewColumn", "binary_column", "columns"]

#: In the machine's byte order, as Arrow has it.
_INLINE = struct.Struct("=i12s")
_POINTER = struct.Struct("=i4sii")
_INT64 = struct.Struct("=q")
_INLINE_BYTES = 12


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
    """

    views: bytes
    validity: bytes | None
    data: tuple[Buffer, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewColumn, (self.views, self.validity, tuple(map(bytes, self.data)))

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
        timestamps: the same, ms since the epoch.
        keys: of the records.
        values: of the records.
        headers: of each record; None if they were not asked for.
    """

    count: int
    offsets: bytes
    timestamps: bytes
    keys: ViewColumn
    values: ViewColumn
    headers: tuple[Headers, ...] | None

    def __reduce__(self) -> tuple[Any, ...]:
        # The buffers belong to both columns, and are copied once.
        data = tuple(map(bytes, self.keys.data))
        keys, values = replace(self.keys, data=data), self.values
        if values.data is self.keys.data:
            values = replace(values, data=data)
        return Columns, (self.count, self.offsets, self.timestamps, keys, values, self.headers)

    def to_arrow(self, *, copy: bool = False) -> pyarrow.RecordBatch:
        """Return an Arrow record batch with the columns offset, timestamp, key, value and, if there, headers.

        Args:
            copy: whether keys and values are copied into plain `binary` arrays, which every reader of Arrow knows.
        """
        import pyarrow

        int64, binary = pyarrow.int64(), pyarrow.binary()
        arrays = {
            "offset": pyarrow.Array.from_buffers(int64, self.count, [None, pyarrow.py_buffer(self.offsets)]),
            "timestamp": pyarrow.Array.from_buffers(int64, self.count, [None, pyarrow.py_buffer(self.timestamps)]),
        }
        for name, column in (("key", self.keys), ("value", self.values)):
            validity = None if column.validity is None else pyarrow.py_buffer(column.validity)
            buffers = [validity, pyarrow.py_buffer(column.views), *map(pyarrow.py_buffer, column.data)]
            views = pyarrow.Array.from_buffers(pyarrow.binary_view(), self.count, buffers)
            arrays[name] = views.cast(binary) if copy else views
        if self.headers is not None:
            pairs = [[{"key": name, "value": content} for name, content in headers] for headers in self.headers]
            header = pyarrow.struct([("key", pyarrow.string()), ("value", binary)])
            arrays["headers"] = pyarrow.array(pairs, pyarrow.list_(header))
        return pyarrow.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def columns(batches: Iterable[ReadableBatch], *, headers: bool = False) -> Columns:
    """Return the records of several batches as columns.

    Args:
        batches: in order, of any magic.
        headers: whether the headers are decoded too; they are an object for each record that has some.

    Raises:
        DecodeError: a batch is broken.
    """
    sources = list(batches)
    if built is None or not all(isinstance(batch, built.RecordBatch) for batch in sources):
        return _columns_of_records(sources, headers)
    count, offsets, timestamps, keys, key_validity, values, value_validity, found = built.read_columns(sources)
    data = tuple(found)
    key_column = ViewColumn(keys, key_validity, data)
    value_column = ViewColumn(values, value_validity, data)
    listed = tuple(record.headers for batch in sources for record in batch.views()) if headers else None
    return Columns(count, offsets, timestamps, key_column, value_column, listed)


def binary_column(array: pyarrow.Array) -> BinaryColumn:
    """Return an Arrow array of binary values or strings as `append_columns` takes it.

    Args:
        array: any array that can be cast to `binary`.
    """
    import pyarrow

    plain = array.cast(pyarrow.binary())
    if plain.offset:  # a slice shares the buffers of the whole
        plain = pyarrow.concat_arrays([plain.slice(0, 0), plain])
    validity, offsets, data = plain.buffers()
    ends = memoryview(offsets)[: (len(plain) + 1) * 4] if offsets else bytes(4)
    return BinaryColumn(ends, data or b"", validity if plain.null_count else None)


def _columns_of_records(batches: list[ReadableBatch], with_headers: bool) -> Columns:
    """Make columns from records; keys and values are copied into one buffer."""
    offsets, timestamps = bytearray(), bytearray()
    data = bytearray()
    keys, values = _Views(data), _Views(data)
    listed: list[Headers] = []
    count = 0
    for batch in batches:
        for record in batch.views():
            offsets += _INT64.pack(record.offset)
            timestamps += _INT64.pack(record.timestamp)
            keys.add(record.key)
            values.add(record.value)
            if with_headers:
                listed.append(record.headers)
            count += 1
    buffers: tuple[Buffer, ...] = (bytes(data),)
    headers = tuple(listed) if with_headers else None
    return Columns(count, bytes(offsets), bytes(timestamps), keys.column(buffers), values.column(buffers), headers)


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
        return ViewColumn(bytes(self._views), None if all(self._is_valid) else bytes(validity), buffers)
