"""The results of a `RowsBuilder` on every engine: the buffers of Arrow's plain columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.shared_columns import ReadableBatch
from kafkawire.sdk.records.java_integers import OFFSET_MAX

__all__ = [
    "BATCH_COLUMN_CODES",
    "COLUMNS",
    "HEADER_BYTES",
    "HEADER_OBJECT_BYTES",
    "ROWS_BYTES_MAX",
    "ROWS_MAX",
    "BatchColumns",
    "BatchOfRows",
    "HeaderColumns",
    "PlainBatches",
    "PlainColumn",
    "RowColumns",
    "check_headers",
    "check_records",
    "checked_columns",
]

#: The parts of a record.
COLUMNS: Final = ("key", "value", "offset", "timestamp", "headers")

#: Default limit on the total size of keys, values and headers, above which the fixed cost of reading a batch of rows is
#: negligible.
ROWS_BYTES_MAX: Final = 4 * 1024 * 1024

#: Bytes that a header takes in addition to its name and value: the ends of both. In a decompression bomb, headers may
#: have no other bytes.
HEADER_BYTES: Final = 8

#: Memory for a header that must first become an object: a tuple, a string, bytes, and its written form.
HEADER_OBJECT_BYTES: Final = 400

#: Default limit on rows. A record of seven bytes becomes a row of at least 24, so this is the limit that small records
#: reach first.
ROWS_MAX: Final = 128 * 1024


class PlainColumn(NamedTuple):
    """Byte strings, or lists, in Arrow's plain layout: element `i` extends from `ends[i]` to `ends[i + 1]`.

    Attributes:
        ends: int32 in the machine's byte order, one more than the number of elements; the first is 0.
        data: the concatenated bytes of all values; empty for lists.
        validity: bit `i % 8` of byte `i // 8` is 0 if element `i` is null; None if no element is null.
        nulls: the number of null elements.
    """

    ends: Buffer
    data: Buffer
    validity: Buffer | None
    nulls: int


class HeaderColumns(NamedTuple):
    """The headers of records: a list for each record, with the elements in two columns.

    Attributes:
        lists: null for a record without headers.
        names: UTF-8, never null.
        values: the headers' values.
    """

    lists: PlainColumn
    names: PlainColumn
    values: PlainColumn


class BatchOfRows(ReadableBatch, Protocol):
    """A source of rows: a batch of any magic and engine, with the fields that `BatchColumns` needs."""

    @property
    def magic(self) -> int: ...

    @property
    def attributes(self) -> int: ...

    @property
    def base_offset(self) -> int: ...

    @property
    def partition_leader_epoch(self) -> int: ...

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def base_sequence(self) -> int: ...

    @property
    def limit(self) -> int: ...


class BatchColumns(NamedTuple):
    """The batches that have rows, in order; each column holds one number per batch.

    Fields that do not exist before magic 2 are -1.

    Attributes:
        ends: int32, the row after the batch's last one.
        positions: int64, as passed by the caller; -1 if none was passed.
        magics: int8.
        attributes: int16, from the header.
        base_offsets: int64.
        leader_epochs: int32.
        producer_ids: int64.
        producer_epochs: int16.
        base_sequences: int32.
    """

    ends: memoryview[int]
    positions: memoryview[int]
    magics: memoryview[int]
    attributes: memoryview[int]
    base_offsets: memoryview[int]
    leader_epochs: memoryview[int]
    producer_ids: memoryview[int]
    producer_epochs: memoryview[int]
    base_sequences: memoryview[int]


#: The type codes of these numbers in `array` and `memoryview`.
BATCH_COLUMN_CODES: Final = ("i", "q", "b", "h", "q", "i", "q", "h", "i")


class PlainBatches(NamedTuple):
    """Selects the batches at the beginning of some bytes that one call adds.

    Attributes:
        position: the position of the first byte, for `BatchColumns`.
        size_bytes: add only batches that begin within this many bytes.
        next_offset: the required first offset; each later batch must begin where the one before it ended. None for any
            offset.
        end_offset: add only batches that end before this offset.
        are_transactional: whether transactional batches are included.
    """

    position: int
    size_bytes: int
    next_offset: int | None = None
    end_offset: int = OFFSET_MAX
    are_transactional: bool = True


class RowColumns(NamedTuple):
    """Rows; columns that were not requested are None.

    Attributes:
        rows_count: the number of rows.
        batches: the batches that they come from.
        offsets: int64 in the machine's byte order.
        timestamps: int64 as well, ms since the epoch.
        keys: the keys of the records.
        values: the values of the records.
        headers: the headers of the records.
    """

    rows_count: int
    batches: BatchColumns
    offsets: Buffer | None
    timestamps: Buffer | None
    keys: PlainColumn | None
    values: PlainColumn | None
    headers: HeaderColumns | None


def checked_columns(columns: Iterable[str]) -> frozenset[str]:
    """Check the names of columns, and return them.

    Raises:
        ValueError: a record has no such part.
    """
    names = frozenset(columns)
    if unknown := names - set(COLUMNS):
        raise ValueError(f"there is no column {', '.join(sorted(unknown))}; a record has {', '.join(COLUMNS)}")
    return names


def check_headers(count: int, are_ascii: bool, limit: int) -> None:
    """Check that the headers of a record fit into memory.

    Args:
        count: the number of headers.
        are_ascii: whether all header names of its batch are ASCII.
        limit: the maximum size of the batch's decompressed records, in bytes.

    Raises:
        DecodeError: the headers do not fit.
    """
    size = count * (HEADER_BYTES if are_ascii else HEADER_OBJECT_BYTES)
    if size > limit:
        reason = f"the {count} headers of a record take {size} bytes, but the limit is {limit}"
        raise DecodeError("records", 0, reason)


def check_records(batch: BatchOfRows, with_headers: bool) -> None:
    """Check all records of a batch before any of its rows is written.

    Raises:
        DecodeError: a record is damaged; or headers are wanted, and do not fit into memory.
    """
    most, are_ascii = 0, True
    for record in batch.views():
        if with_headers and record.headers:
            most = max(most, len(record.headers))
            are_ascii = are_ascii and all(name.isascii() for name, _ in record.headers)
    check_headers(most, are_ascii, batch.limit)
