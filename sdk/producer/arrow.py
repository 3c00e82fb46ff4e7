"""Turn the Arrow columns of `Producer.send_arrow` into buffers that the engines read row by row.

Keys and values are read in place; Arrow first converts all types except binary with 32-bit offsets. With the extension,
no Python object is created per record. This module needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kafkawire.sdk.client.arguments import MAX_INT32, checked_number
from kafkawire.sdk.errors import Closed, EncodeError, KafkaWireError, LocalProtocolError, RecordTooLarge
from kafkawire.sdk.records import BinaryColumn
from kafkawire.sdk.records.content import HeadersInput

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ArrowRows", "arrow_rows", "at_row"]

#: Rows per conversion: enough to make Arrow's overhead negligible, and few enough to need little memory.
_ROWS: Final = 65_536
#: Bytes per conversion; 32-bit offsets can address twice as many.
_BYTES: Final = 2**30
#: What replaces a null partition number or timestamp.
NO_PARTITION: Final = -(2**31)
NO_TIMESTAMP: Final = -(2**63)


class ArrowRows:
    """A chunk of a table's rows.

    Args:
        batch: the rows.
        first: the index of the first of these rows in the table.
        columns: the column to read for each argument of `send_arrow`.

    Attributes:
        count: the number of rows.
        values, keys: byte strings; None if there is no such column.
        value_shift, key_shift: the position of row 0 in the values and keys.
        partition: the partition of all rows; None if they differ or must be chosen.
        partitions: the partition of each row, `NO_PARTITION` where one must be chosen; None if there is no such column.
        timestamps: the timestamp of each row in ms, `NO_TIMESTAMP` for the current time; None if there is no such
            column.
        headers: the headers of each row; None if there is no such column.
    """

    def __init__(self, batch: pyarrow.RecordBatch, first: int, columns: dict[str, str | int | None]) -> None:
        import pyarrow

        self.count = batch.num_rows
        self.first = first
        self.values, self.value_shift = _binary(batch, "value", columns["value"])
        self.keys, self.key_shift = _binary(batch, "key", columns["key"])
        wanted = columns["partition"]
        is_column = isinstance(wanted, str)
        self.partition = None if wanted is None or is_column else checked_number("partition", wanted, 0, MAX_INT32)
        self.partitions = self.timestamps = None
        if is_column:
            self.partitions = _numbers(batch, first, wanted, pyarrow.int32(), NO_PARTITION).cast("i")
        if columns["timestamp_ms"] is not None:
            self.timestamps = _times(batch, first, columns["timestamp_ms"]).cast("q")
        named = columns["headers"]
        self.headers = None if named is None else _column(batch, named)

    def record(self, row: int) -> dict[str, Any]:
        """Return the arguments of `send` for a row, without the topic.

        Raises:
            EncodeError: the headers are not pairs.
        """
        record: dict[str, Any] = {"value": _cell(self.values, row + self.value_shift)}
        record["key"] = _cell(self.keys, row + self.key_shift)
        record["partition"] = self.partition
        if self.partitions is not None and self.partitions[row] != NO_PARTITION:
            record["partition"] = self.partitions[row]
        if self.timestamps is not None and self.timestamps[row] != NO_TIMESTAMP:
            record["timestamp_ms"] = self.timestamps[row]
        if self.headers is not None:
            record["headers"] = _pairs(self.headers[row].as_py())
        return record


def arrow_rows(table: object, **columns: str | int | None) -> Iterator[ArrowRows]:
    """Yield the rows of a table in chunks.

    Args:
        table: a `pyarrow.RecordBatch` or `Table`, or an object with the Arrow PyCapsule interface.
        columns: the column name for each argument of `send_arrow`; None for no column.

    Raises:
        EncodeError: a column does not exist, or its type cannot be converted into records.
        LocalProtocolError: the argument is not a table.
    """
    import pyarrow

    first = 0
    for batch in _batches(pyarrow, table):
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, _ROWS)
            while part.num_rows > 1 and part.nbytes > _BYTES:
                part = part.slice(0, part.num_rows // 2)
            yield ArrowRows(part, first + start, columns)
            start += part.num_rows
        first += batch.num_rows


def at_row(error: KafkaWireError, row: int) -> KafkaWireError:
    """Return an error raised by `send`, with the row number added."""
    if isinstance(error, EncodeError):
        return EncodeError(f"row {row}, {error.path}", error.reason)
    if isinstance(error, RecordTooLarge | LocalProtocolError) and not isinstance(error, Closed):
        return type(error)(f"row {row}: {error}")
    return error


def _batches(pyarrow: Any, table: Any) -> Iterator[pyarrow.RecordBatch]:
    if isinstance(table, pyarrow.RecordBatch):
        yield table
    elif isinstance(table, pyarrow.Table):
        yield from table.to_batches()
    elif hasattr(table, "__arrow_c_stream__"):
        yield from pyarrow.RecordBatchReader.from_stream(table)
    elif hasattr(table, "__arrow_c_array__"):
        yield pyarrow.record_batch(table)
    else:
        raise LocalProtocolError(
            f"send_arrow: expected a pyarrow.Table or RecordBatch, or an object with __arrow_c_stream__ or "
            f"__arrow_c_array__, got {type(table).__name__}"
        )


def _column(batch: pyarrow.RecordBatch, name: object) -> pyarrow.Array:
    if name not in batch.schema.names:
        raise EncodeError(f"column {name!r}", f"not found; the table has {', '.join(batch.schema.names)}")
    return batch.column(name)


def _binary(batch: pyarrow.RecordBatch, what: str, name: object) -> tuple[BinaryColumn | None, int]:
    """Return a column of byte strings and its first row's position, since Arrow's validity bits can start anywhere."""
    if name is None:
        return None, 0
    import pyarrow
    from pyarrow import types

    array = _column(batch, name)
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_null(array.type) or types.is_fixed_size_binary(array.type):
        array = array.cast(pyarrow.binary())
    kind = array.type
    if types.is_large_binary(kind) or types.is_large_string(kind) or str(kind) in ("binary_view", "string_view"):
        array = array.cast(pyarrow.binary())
    elif not (types.is_binary(kind) or types.is_string(kind)):
        reason = f"is {kind}, but a {what} must be binary or text: cast the column as your consumers expect"
        raise EncodeError(f"column {name!r}", reason)
    validity, offsets, data = array.buffers()
    shift = array.offset % 8
    start = array.offset - shift
    if not len(array):
        return BinaryColumn(bytes(4), b""), 0
    end = array.offset + len(array)
    return (
        BinaryColumn(
            memoryview(offsets)[4 * start : 4 * (end + 1)],
            b"" if data is None else memoryview(data),
            None if validity is None else memoryview(validity)[start // 8 : (end + 7) // 8],
        ),
        shift,
    )


def _numbers(batch: pyarrow.RecordBatch, first: int, name: object, kind: Any, null: int) -> memoryview:
    """Return the bytes of a column of integers; `null` is the lowest value of their type."""
    import pyarrow
    from pyarrow import types

    array = _column(batch, name)
    if not types.is_integer(array.type):
        raise EncodeError(f"column {name!r}", f"is {array.type}; expected integers")
    try:
        array = array.cast(kind).fill_null(null)
    except pyarrow.ArrowInvalid as error:
        numbers = enumerate(array.to_pylist(), first)
        row, number = next((row, each) for row, each in numbers if each is not None and not null <= each < -null)
        raise EncodeError(f"row {row}, column {name!r}", f"{number} is not between {null} and {-null - 1}") from error
    return _bytes(array, kind.bit_width // 8)


def _times(batch: pyarrow.RecordBatch, first: int, name: object) -> memoryview:
    """Return a column of times as the bytes of int64 in ms; Arrow timestamps are truncated to whole ms."""
    import pyarrow
    from pyarrow import types

    array = _column(batch, name)
    if not types.is_timestamp(array.type):
        return _numbers(batch, first, name, pyarrow.int64(), NO_TIMESTAMP)
    zone = array.type.tz
    whole = array.cast(pyarrow.timestamp("ms", tz=zone), safe=False)
    return _bytes(whole.cast(pyarrow.int64()).fill_null(NO_TIMESTAMP), 8)


def _bytes(array: pyarrow.Array, width: int) -> memoryview:
    data = array.buffers()[1]
    if data is None:
        return memoryview(b"")
    return memoryview(data)[array.offset * width : (array.offset + len(array)) * width]


def _cell(column: BinaryColumn | None, row: int) -> bytes | None:
    found = None if column is None else column[row]
    return None if found is None else bytes(found)


def _pairs(headers: Any) -> HeadersInput:
    """Return one row of a headers column: a list of structs of two fields, or a map."""
    if headers is None:
        return ()
    if isinstance(headers, list):
        return [tuple(each.values()) if isinstance(each, dict) else each for each in headers]
    return headers  # type: ignore[no-any-return]  # `send` rejects other types
