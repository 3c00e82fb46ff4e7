"""Rows of plain Arrow columns without the extension (see `rows.py`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.shared_columns import OffsetRange
from kafkawire.sdk.records.engines.shared_rows import (
    BATCH_COLUMN_CODES,
    COLUMNS,
    HEADER_BYTES,
    ROWS_BYTES_MAX,
    ROWS_MAX,
    BatchColumns,
    BatchOfRows,
    HeaderColumns,
    PlainBatches,
    PlainColumn,
    RowColumns,
    check_records,
    checked_columns,
)
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.record import Record

__all__ = ["RowsBuilder"]


class RowsBuilder:
    """See `RowsBuilder` and `rows_builder`."""

    def __init__(
        self, columns: Iterable[str] = COLUMNS, *, rows_max: int = ROWS_MAX, bytes_max: int = ROWS_BYTES_MAX
    ) -> None:
        self._columns = checked_columns(columns)
        if rows_max < 1 or bytes_max < 1:
            raise ValueError(f"{rows_max} rows and {bytes_max} bytes are allowed, but at least 1 of each is needed")
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._records: Iterator[Record] | None = None
        self._waiting: Record | None = None
        self._wanted: OffsetRange = None
        self._clear()

    def begin(self, batch: BatchOfRows, wanted: OffsetRange = None, position: int = -1) -> None:
        self._records = self._waiting = None
        check_records(batch, "headers" in self._columns)
        self._records = batch.views()
        self._wanted = wanted
        has_all = batch.magic == BATCH_MAGIC
        self._facts = (
            position,
            batch.magic,
            batch.attributes,
            batch.base_offset if has_all else -1,
            batch.partition_leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )
        self._is_noted = False

    def add_plain(self, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        return 0, 0

    def fill(self) -> bool:
        while self._records is not None:
            record = next(self._records, None) if self._waiting is None else self._waiting
            self._waiting = None
            if record is None:
                self._records = None
            elif self._wanted is None or self._wanted[0] <= record.offset < self._wanted[1]:
                size = self._bytes_of(record)
                is_full = self.count == self._rows_max or self.size_in_bytes + size > self._bytes_max
                if self.count and is_full:
                    self._waiting = record
                    return False
                self._add(record)
                self.size_in_bytes += size
        return True

    def take(self) -> RowColumns:
        columns = self._columns
        headers = HeaderColumns(self._lists.column(), self._names.column(), self._header_values.column())
        found = RowColumns(
            self.count,
            BatchColumns(*[memoryview(column) for column in self._batches]),
            self._offsets.tobytes() if "offset" in columns else None,
            self._timestamps.tobytes() if "timestamp" in columns else None,
            self._keys.column() if "key" in columns else None,
            self._values.column() if "value" in columns else None,
            headers if "headers" in columns else None,
        )
        self._clear()
        return found

    def _clear(self) -> None:
        self.count = self.size_in_bytes = 0
        self._is_noted = False
        self._batches = [array(code) for code in BATCH_COLUMN_CODES]
        self._offsets, self._timestamps = array("q"), array("q")
        self._keys, self._values = _Column(), _Column()
        self._lists, self._names, self._header_values = _Column(), _Column(), _Column()

    def _bytes_of(self, record: Record) -> int:
        """Return the size of a record's row: key, value and headers."""
        size = len(record.key or b"") if "key" in self._columns else 0
        if "value" in self._columns:
            size += len(record.value or b"")
        if "headers" in self._columns:
            size += sum(len(name.encode()) + len(value or b"") + HEADER_BYTES for name, value in record.headers)
        return size

    def _note(self) -> None:
        """Assign all rows up to here to the current batch."""
        if not self._is_noted:
            for column, number in zip(self._batches, (0, *self._facts), strict=True):
                column.append(number)
            self._is_noted = True
        self._batches[0][-1] = self.count

    def _add(self, record: Record) -> None:
        self.count += 1
        self._note()
        self._offsets.append(record.offset)
        self._timestamps.append(record.timestamp_ms)
        if "key" in self._columns:
            self._keys.add(record.key)
        if "value" in self._columns:
            self._values.add(record.value)
        if "headers" in self._columns:
            for name, value in record.headers:
                self._names.add(name.encode())
                self._header_values.add(value)
            self._lists.add_end(len(record.headers) if record.headers else None)  # null, as in Spark's connector


class _Column:
    """A growing plain column."""

    def __init__(self) -> None:
        self._ends = array("i", [0])
        self._data = bytearray()
        self._is_valid: list[bool] = []

    def add(self, value: bytes | None) -> None:
        """Add a byte string, or None for a null."""
        self.add_end(None if value is None else len(value))
        self._data += value or b""

    def add_end(self, size: int | None) -> None:
        """Add a string of `size` bytes or a list of `size` elements; None adds a null."""
        end = self._ends[-1] + (size or 0)
        if end > INT32_MAX:
            raise DecodeError("records", 0, f"there are {end} bytes, but a column holds {INT32_MAX}")
        self._ends.append(end)
        self._is_valid.append(size is not None)

    def column(self) -> PlainColumn:
        """Return the finished column."""
        validity = bytearray((len(self._is_valid) + 7) // 8)
        for index, is_valid in enumerate(self._is_valid):
            validity[index // 8] |= is_valid << index % 8
        nulls = self._is_valid.count(False)
        return PlainColumn(self._ends.tobytes(), bytes(self._data), bytes(validity) if nulls else None, nulls)
