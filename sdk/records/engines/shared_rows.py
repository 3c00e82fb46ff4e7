"""What a `RowsBuilder` hands over, on every engine: the buffers of Arrow's plain columns."""

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

#: What a record has.
COLUMNS: Final = ("key", "value", "offset", "timestamp", "headers")

#: Of keys, values and headers together, by default: each batch of rows has a fixed price for its reader, which no
#: longer shows from this size on.
ROWS_BYTES_MAX: Final = 4 * 1024 * 1024

#: What a header takes beside its name and value: where the two end. A bomb has headers of nothing else.
HEADER_BYTES: Final = 8

#: What a header takes that has to be an object first: a tuple, a string and bytes, and these once more as they are
#: written.
HEADER_OBJECT_BYTES: Final = 400

#: By default. A record of seven bytes becomes a row of 24 and more: with many small ones this comes first.
ROWS_MAX: Final = 128 * 1024


class PlainColumn(NamedTuple):
    """Byte strings, or lists, in Arrow's plain layout: element `i` is from `ends[i]` to `ends[i + 1]`.

    Attributes:
        ends: int32 in the machine's byte order, one more than there are elements; the first is 0.
        data: the bytes of all values, one after the other; empty for lists.
        validity: bit `i % 8` of byte `i // 8` is 0 where the element is null; None where none is.
        nulls: how many are.
    """

    ends: Buffer
    data: Buffer
    validity: Buffer | None
    nulls: int


class HeaderColumns(NamedTuple):
    """The headers of records: a list for each, whose elements are in two columns.

    Attributes:
        lists: null for a record without headers.
        names: UTF-8, never null.
        values: of the headers.
    """

    lists: PlainColumn
    names: PlainColumn
    values: PlainColumn


class BatchOfRows(ReadableBatch, Protocol):
    """What rows can be made from: a batch of any magic, of any engine, with what `BatchColumns` says of it."""

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
    """The batches that rows come from, in order: those that have some, a number in each column for each of them.

    What a batch before magic 2 does not have is -1.

    Attributes:
        ends: int32, the row after its last one.
        positions: int64, as they were given; -1 where none was.
        magics: int8.
        attributes: int16, as its header has them.
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


#: The codes of these numbers in `array` and `memoryview`.
BATCH_COLUMN_CODES: Final = ("i", "q", "b", "h", "q", "i", "q", "h", "i")


class PlainBatches(NamedTuple):
    """Which of the batches at the beginning of some bytes are added at once.

    Attributes:
        position: of the first byte, where `BatchColumns` counts from.
        size_bytes: those that begin before so many bytes.
        next_offset: what the first one begins with, each other one where the one before ended; None for any.
        end_offset: those that do not reach it.
        are_transactional: whether those of transactions are among them.
    """

    position: int
    size_bytes: int
    next_offset: int | None = None
    end_offset: int = OFFSET_MAX
    are_transactional: bool = True


class RowColumns(NamedTuple):
    """Rows; what was not asked for is None.

    Attributes:
        rows_count: how many.
        batches: where they come from.
        offsets: int64 in the machine's byte order.
        timestamps: the same, ms since the epoch.
        keys: of the records.
        values: of the records.
        headers: of the records.
    """

    rows_count: int
    batches: BatchColumns
    offsets: Buffer | None
    timestamps: Buffer | None
    keys: PlainColumn | None
    values: PlainColumn | None
    headers: HeaderColumns | None


def checked_columns(columns: Iterable[str]) -> frozenset[str]:
    """Return the names of columns.

    Raises:
        ValueError: a record has no such part.
    """
    names = frozenset(columns)
    if unknown := names - set(COLUMNS):
        raise ValueError(f"no column {', '.join(sorted(unknown))}, a record has {', '.join(COLUMNS)}")
    return names


def check_headers(count: int, are_ascii: bool, limit: int) -> None:
    """Check that the headers of a record fit into memory.

    Args:
        count: of the record that has most of them.
        are_ascii: whether the names of its batch are.
        limit: most bytes that the records of the batch may have when decompressed.

    Raises:
        DecodeError: they do not.
    """
    size = count * (HEADER_BYTES if are_ascii else HEADER_OBJECT_BYTES)
    if size > limit:
        reason = f"the {count} headers of a record take {size} bytes, the limit is {limit}"
        raise DecodeError("records", 0, reason)


def check_records(batch: BatchOfRows, with_headers: bool) -> None:
    """Look at all records of a batch, before a row of it is there.

    Raises:
        DecodeError: one is broken; or their headers are wanted, and do not fit into memory.
    """
    most, are_ascii = 0, True
    for record in batch.views():
        if with_headers and record.headers:
            most = max(most, len(record.headers))
            are_ascii = are_ascii and all(name.isascii() for name, _ in record.headers)
    check_headers(most, are_ascii, batch.limit)
