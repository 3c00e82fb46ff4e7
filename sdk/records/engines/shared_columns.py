"""Columns of records, for every engine: keys and values as Arrow views, and numbers.

Source: Apache Arrow, columnar format, "Variable-size Binary View Layout".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.record import Headers, Record

if TYPE_CHECKING:
    import pyarrow

__all__ = ["INLINE", "INLINE_BYTES", "INT64", "POINTER", "Columns", "OffsetRange", "ReadableBatch", "ViewColumn"]

#: The offsets of the first wanted record and of the first unwanted one after it; None if all records are wanted.
OffsetRange = tuple[int, int] | None

#: In the machine's byte order, as in Arrow.
INLINE = struct.Struct("=i12s")
POINTER = struct.Struct("=i4sii")
INT64 = struct.Struct("=q")
INLINE_BYTES = 12


class ReadableBatch(Protocol):
    """A source of columns: a batch of any magic and engine."""

    def views(self) -> Iterator[Record]:
        """Yield the records in order."""
        ...


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """Byte strings in Arrow's view layout.

    Attributes:
        views: sixteen bytes for each string.
        validity: bit `i % 8` of byte `i // 8` is 0 if value `i` is null; None if no value is null.
        data: the buffers that views point into; views refer to them by number.
        nulls: the number of null values.
    """

    views: Buffer
    validity: Buffer | None
    data: tuple[Buffer, ...]
    nulls: int

    def __reduce__(self) -> tuple[Any, ...]:
        validity = None if self.validity is None else bytes(self.validity)
        return ViewColumn, (bytes(self.views), validity, tuple(map(bytes, self.data)), self.nulls)

    def at(self, index: int) -> bytes | None:
        """Return one byte string, or None for a null.

        Raises:
            IndexError: the index is below 0 or beyond the end.
        """
        count = len(self.views) // INLINE.size
        if not 0 <= index < count:
            raise IndexError(f"there is no value {index} among {count}")
        if self.validity is not None and not self.validity[index // 8] >> index % 8 & 1:
            return None
        size, content = INLINE.unpack_from(self.views, index * INLINE.size)
        if size <= INLINE_BYTES:
            return bytes(content[:size])
        _, _, number, start = POINTER.unpack_from(self.views, index * POINTER.size)
        return bytes(self.data[number][start : start + size])


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns.

    Attributes:
        count: the number of records.
        offsets: int64 in the machine's byte order, one for each record.
        timestamps_ms: int64 as well, milliseconds since the epoch.
        keys: the keys of the records.
        values: the values of the records.
        headers: the headers of each record; None if they were not requested.
    """

    count: int
    offsets: Buffer
    timestamps_ms: Buffer
    keys: ViewColumn
    values: ViewColumn
    headers: tuple[Headers, ...] | None

    def __reduce__(self) -> tuple[Any, ...]:
        # Both columns share the buffers, which are copied only once.
        data = tuple(map(bytes, self.keys.data))
        keys, values = replace(self.keys, data=data), self.values
        if values.data is self.keys.data:
            values = replace(values, data=data)
        return Columns, (self.count, bytes(self.offsets), bytes(self.timestamps_ms), keys, values, self.headers)

    def to_arrow(self, *, copy: bool = False) -> pyarrow.RecordBatch:
        """Return an Arrow record batch with the columns offset, timestamp, key, value and, if present, headers.

        Args:
            copy: whether to copy keys and values into plain `binary` arrays, which every Arrow reader supports.
        """
        import pyarrow

        arrays = self.arrow_arrays(pyarrow.int64())
        if copy:
            for name in ("key", "value"):
                arrays[name] = arrays[name].cast(pyarrow.binary())
        return pyarrow.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    def arrow_arrays(self, timestamp: pyarrow.DataType) -> dict[str, pyarrow.Array]:
        """Return Arrow arrays by name (see `to_arrow`).

        Args:
            timestamp: the type of the timestamps, which must have 64 bits.
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
