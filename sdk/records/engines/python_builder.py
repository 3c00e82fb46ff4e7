"""Build a record batch (magic 2) in Python, as the extension's `BatchBuilder` does.

Records are appended in wire format after space reserved for the header; sealing writes the header and the checksum, and
returns the batch without copying it. The code that writes a record and the header is generated from the schemas into
`record_codec.py`.

Source: `MemoryRecordsBuilder`, `DefaultRecord` in Apache Kafka; `schemas/records/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, NamedTuple, NoReturn, TypeVar, cast

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.primitives import LIMITS
from kafkawire.sdk.protocol.tables.enums import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafkawire.sdk.protocol.tables.record_codec import pack_batch_header, write_record
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HAS_DELETE_HORIZON_MASK,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_TIMESTAMP_TYPE_MASK,
    Compression,
    TimestampType,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.compression import compress
from kafkawire.sdk.records.crc import crc32c_of_bytes
from kafkawire.sdk.records.engines.shared_arguments import (
    checked_compression,
    checked_content,
    checked_headers,
    checked_number,
    checked_time,
    checked_timestamp_type,
    whole_number,
)
from kafkawire.sdk.records.java_integers import int64
from kafkawire.sdk.records.limits import DEFAULT_BATCH_BYTES
from kafkawire.sdk.records.record import BinaryColumn, HeadersLike

__all__ = ["BatchBuilder"]

_INT16, _INT32, _INT64 = LIMITS["int16"], LIMITS["int32"], LIMITS["int64"]
_INT32_MAX = _INT32[1]
_FIRST_OFFSET = 0
_NO_HEADERS: tuple[()] = ()


_T = TypeVar("_T")


class _Number:
    """A header field that can be set until the batch is sealed, and between calls to `seal`."""

    def __init__(self, low: int, high: int) -> None:
        self._limits = low, high

    def __set_name__(self, owner: type[BatchBuilder], name: str) -> None:
        self._name, self._slot = name, f"_{name}"

    def __get__(self, builder: BatchBuilder, owner: type[BatchBuilder]) -> int:
        return cast(int, getattr(builder, self._slot))

    def __set__(self, builder: BatchBuilder, value: int) -> None:
        setattr(builder, self._slot, checked_number(self._name, value, *self._limits))


class _ReadOnly(Generic[_T]):
    """A read-only attribute of a builder."""

    def __set_name__(self, owner: type[BatchBuilder], name: str) -> None:
        self._name, self._slot = name, f"_{name}"

    def __get__(self, builder: BatchBuilder, owner: type[BatchBuilder]) -> _T:
        return cast(_T, getattr(builder, self._slot))

    def __set__(self, builder: BatchBuilder, value: object) -> NoReturn:
        raise AttributeError(f"attribute '{self._name}' of a batch builder is not writable")


class _Count(_ReadOnly[int]):
    """The read-only number of records."""

    def __get__(self, builder: BatchBuilder, owner: type[BatchBuilder]) -> int:
        return builder._filled().records_count


class _Filled(NamedTuple):
    """The state of a batch after its last record: everything that its header will state about the records."""

    record: Buffer
    records_count: int
    last_offset_delta: int
    size_bytes: int
    base_timestamp: int
    max_timestamp: int


#: Used as the number of records once no more can be added.
_END: Final = -1


class BatchBuilder:
    """A growing batch that multiple threads and signal handlers can append to.

    The builder takes no lock, since a thread could be interrupted while holding one. Instead, each record, and finally
    the end of the batch, claims its place in a single step with `dict.setdefault`.

    Args:
        limit_bytes: the size before compression that records after the first must not exceed; the first record is
            always accepted.
        compression: the compression of the records.
        level: the compression level (see `compress`).
        timestamp_type: who sets the timestamps; with LOG_APPEND_TIME all records have `log_append_time`.
        log_append_time: ms since the epoch.
        base_offset: the offset of the first record; clients leave it at 0, and the broker sets it.
        producer_id, producer_epoch, base_sequence: the fields of an idempotent producer.
        is_transactional: whether the batch belongs to a transaction.
        is_control: whether it holds control records.
        partition_leader_epoch: the leader's epoch; clients leave it at -1, and the broker sets it.
        delete_horizon_ms: the time from which compaction may remove tombstones; None, or below 0 as in Kafka, if
            compaction has not processed the batch yet.

    Attributes:
        count: the number of records so far.
        size_bytes: the size of the batch before compression.
        is_closed: whether the batch accepts no more records.
        base_offset, partition_leader_epoch, producer_id, producer_epoch, base_sequence, is_transactional: can be set
            until the batch is sealed, and between calls to `seal`.
        last_offset_delta: the offset delta of the last record; can be raised before `seal`, as compaction does.

    Raises:
        EncodeError: the compression, its level or the timestamp type does not exist, or a number does not fit its
            field, even if it is set later.
    """

    __slots__ = (
        "_base_offset",
        "_base_sequence",
        "_compressed",
        "_compression",
        "_data",
        "_delete_horizon_ms",
        "_is_control",
        "_level",
        "_limit_bytes",
        "_log_append_time",
        "_partition_leader_epoch",
        "_places",
        "_producer_epoch",
        "_producer_id",
        "_timestamp_type",
        "_is_transactional",
    )

    def __init__(
        self,
        limit_bytes: int = DEFAULT_BATCH_BYTES,
        compression: Compression = Compression.NONE,
        *,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self._limit_bytes = DEFAULT_BATCH_BYTES
        self._compression = Compression.NONE
        self._level = level
        self._timestamp_type = TimestampType.CREATE_TIME
        self._log_append_time = self._producer_id = self._producer_epoch = -1
        self._base_sequence = self._partition_leader_epoch = -1
        self._base_offset = 0
        # Most builders use only defaults, and checking each argument would cost more than appending a record.
        if limit_bytes is not DEFAULT_BATCH_BYTES:
            self._limit_bytes = checked_number("limit_bytes", limit_bytes, 0, _INT64[1])
        if compression is not Compression.NONE or level is not None:
            self._compression = checked_compression(compression, level)
        if timestamp_type is not TimestampType.CREATE_TIME:
            self._timestamp_type = checked_timestamp_type(timestamp_type)
        if log_append_time is not NO_TIMESTAMP:
            self._log_append_time = checked_number("log_append_time", log_append_time, *_INT64)
        if base_offset is not _FIRST_OFFSET:
            self.base_offset = base_offset
        if producer_id is not NO_PRODUCER_ID:
            self.producer_id = producer_id
        if producer_epoch is not NO_PRODUCER_EPOCH:
            self.producer_epoch = producer_epoch
        if base_sequence is not NO_SEQUENCE:
            self.base_sequence = base_sequence
        if partition_leader_epoch is not NO_PARTITION_LEADER_EPOCH:
            self.partition_leader_epoch = partition_leader_epoch
        self._is_transactional = bool(is_transactional)
        self._is_control = bool(is_control)
        self._delete_horizon_ms: int | None = None
        base_timestamp = NO_TIMESTAMP
        if delete_horizon_ms is not None:
            horizon = checked_number("delete_horizon_ms", delete_horizon_ms, *_INT64)
            if horizon >= 0:
                self._delete_horizon_ms = base_timestamp = horizon
        empty = _Filled(b"", 0, -1, BATCH_HEADER_BYTES, base_timestamp, NO_TIMESTAMP)
        self._places: dict[int, _Filled] = {0: empty}
        self._data: bytearray | None = None
        self._compressed: bytes | None = None

    compression = _ReadOnly[Compression]()
    count = _Count()
    delete_horizon_ms = _ReadOnly[int | None]()
    is_control = _ReadOnly[bool]()
    level = _ReadOnly[int | None]()
    log_append_time = _ReadOnly[int]()
    timestamp_type = _ReadOnly[TimestampType]()
    base_offset = _Number(*_INT64)
    partition_leader_epoch = _Number(*_INT32)
    producer_id = _Number(*_INT64)
    producer_epoch = _Number(*_INT16)
    base_sequence = _Number(*_INT32)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self._is_transactional

    @is_transactional.setter
    def is_transactional(self, value: bool) -> None:
        self._is_transactional = bool(value)

    @property
    def last_offset_delta(self) -> int:
        """The offset of the last record relative to the batch, -1 before the first."""
        return self._filled().last_offset_delta

    @last_offset_delta.setter
    def last_offset_delta(self, value: int) -> None:
        value = whole_number("last_offset_delta", value)  # may run code that appends, so it comes first
        places = self._places
        filled = self._filled()
        delta = checked_number("last_offset_delta", value, filled.last_offset_delta, _INT32_MAX)
        place = len(places) - 1 if self.is_closed else len(places)
        raised = filled._replace(record=b"", last_offset_delta=delta)
        self._places = dict(enumerate([*list(places.values())[:place], raised, *list(places.values())[place:]]))

    @property
    def size_bytes(self) -> int:
        """The size of the batch before compression."""
        return self._filled().size_bytes

    @property
    def is_closed(self) -> bool:
        """Whether the batch accepts no more records."""
        places = self._places
        return places[len(places) - 1].records_count == _END

    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike = (),
    ) -> int | None:
        """Add a record after the last one.

        Args:
            timestamp_ms: ms since the epoch, -1 for none.
            key: None for none.
            value: None for a tombstone.
            headers: (name, value) in order.

        Returns:
            The record's offset relative to the batch; None if it does not fit and was not added.

        Raises:
            EncodeError: a value does not fit into the format, or the batch is sealed.
        """
        return self._add(None, timestamp_ms, key, value, headers)

    def append_at(
        self,
        offset: int,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike = (),
    ) -> int | None:
        """Add a record with a given offset, which must be higher than the last one; otherwise the same as `append`."""
        offset = checked_number("offset", offset, *_INT64)
        return self._add(offset, timestamp_ms, key, value, headers)

    def append_many(self, values: Iterable[Buffer | None], timestamp_ms: int) -> int:
        """Add records that have only a value, until one does not fit.

        Returns:
            The number of records added.

        Raises:
            EncodeError: as `append`; the records before the refused one have been added.
        """
        timestamp_ms = checked_time(timestamp_ms)
        added = 0
        for value in values:
            if self.append(timestamp_ms, None, value) is None:
                break
            added += 1
        return added

    def append_columns(
        self, values: BinaryColumn, timestamp_ms: int, keys: BinaryColumn | None = None, start: int = 0
    ) -> int:
        """Add records from columns in Arrow's binary layout, until one does not fit.

        Args:
            values: a value for each record.
            timestamp_ms: the timestamp of all records, ms since the epoch.
            keys: a key for each record; None for records without keys.
            start: the first row.

        Returns:
            The number of records added.

        Raises:
            EncodeError: as `append`; or a column's offsets lie outside its data, or the columns differ in length.
        """
        timestamp_ms = checked_time(timestamp_ms)
        start = checked_number("start", start, 0, _INT64[1])
        value_column = _column("values", values)
        key_column = None if keys is None else _column("keys", keys)
        rows = len(value_column)
        if key_column is not None and len(key_column) != rows:
            raise EncodeError("keys", f"there are {len(key_column)} keys for {rows} values")
        for row in range(start, rows):
            value = value_column[row]
            if self.append(timestamp_ms, None if key_column is None else key_column[row], value) is None:
                return row - start
        return max(rows - start, 0)

    def close(self) -> bool:
        """Close the batch to more records; return whether it was open until now."""
        places = self._places
        end = _Filled(b"", _END, -1, 0, NO_TIMESTAMP, NO_TIMESTAMP)
        while not self.is_closed:
            if places.setdefault(len(places), end) is end:
                return True
        return False

    def seal(self) -> memoryview:
        """Write the header and return the batch, which is empty if it has no records; nothing can be added afterwards.

        It can be called again after a change of the producer's fields, which rewrites the header in place.

        Returns:
            A view of the builder's memory.

        Raises:
            EncodeError: the producer's fields are inconsistent, or the compression level does not exist.
        """
        self._check()
        self.close()
        filled = self._filled()
        if not filled.records_count:
            return memoryview(b"")
        if self._data is None:
            self._data = bytearray(BATCH_HEADER_BYTES)
            self._data += b"".join([each.record for each in self._places.values()])
            end = self._places[len(self._places) - 1]
            self._places = {0: filled._replace(record=b""), 1: end}  # drop the only other copy of the records
        batch = self._data
        if self._compression != Compression.NONE:
            if self._compressed is None:
                self._compressed = compress(self._compression, memoryview(self._data)[BATCH_HEADER_BYTES:], self._level)
            batch = bytearray(BATCH_HEADER_BYTES)
            batch += self._compressed
        self._write_header(batch, filled)
        return memoryview(batch).toreadonly()

    def build(self) -> bytes:
        """Seal the batch and return a copy of it."""
        return bytes(self.seal())

    def _add(
        self,
        offset: int | None,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike,
    ) -> int | None:
        """Append a record, at `offset` if given; return its offset in the batch, or None if it does not fit."""
        timestamp_ms = checked_time(timestamp_ms)
        if key is not None and type(key) is not bytes:
            key = checked_content("key", key)
        if value is not None and type(value) is not bytes:
            value = checked_content("value", value)
        encoded = [] if headers is _NO_HEADERS else checked_headers(headers)
        places = self._places
        while True:
            place = len(places)
            filled = places[place - 1]
            _, count, delta, size_bytes, base_timestamp, max_timestamp = filled
            if count == _END:
                raise EncodeError("", "the batch is sealed")
            delta = delta + 1 if offset is None and delta < _INT32_MAX else self._next_delta(offset, delta)
            if not count and self._delete_horizon_ms is None:
                base_timestamp = timestamp_ms
            timestamp_delta = timestamp_ms - base_timestamp
            if not _INT32[0] <= timestamp_delta <= _INT32_MAX:  # beyond these, a sum can need more than 64 bits
                timestamp_delta = int64(timestamp_delta)
            record = write_record(encoded, key, delta, timestamp_delta, value)
            size_bytes += len(record)
            if size_bytes > _INT32_MAX or (size_bytes > self._limit_bytes and count):
                return None
            if timestamp_ms > max_timestamp:
                max_timestamp = timestamp_ms
            filled = _Filled(record, count + 1, delta, size_bytes, base_timestamp, max_timestamp)
            if places.setdefault(place, filled) is filled:  # otherwise another record took this place
                return delta

    def _filled(self) -> _Filled:
        places = self._places
        place = len(places) - 1
        filled = places[place]
        return places[place - 1] if filled.records_count == _END else filled

    def _next_delta(self, offset: int | None, last: int) -> int:
        """Return the offset of the next record relative to the batch."""
        delta = last + 1 if offset is None else offset - self._base_offset
        if delta <= last or delta < 0:
            raise EncodeError(
                "offset", f"{offset} does not follow {self._base_offset + last}, but offsets must increase"
            )
        if delta > _INT32_MAX:
            raise EncodeError(
                "offset", f"the record is {delta} after the first of the batch, but at most {_INT32_MAX} is allowed"
            )
        return delta

    def _check(self) -> None:
        """Refuse producer fields that no broker accepts."""
        if self._producer_id == NO_PRODUCER_ID:
            if self._is_transactional:
                raise EncodeError("producer_id", "a transactional batch needs one")
        elif self._producer_epoch < 0:
            raise EncodeError(
                "producer_epoch", f"{self._producer_epoch} is too low: with a producer id it is at least 0"
            )
        elif self._base_sequence < 0 and not self._is_control:
            raise EncodeError("base_sequence", f"{self._base_sequence} is too low: with a producer id it is at least 0")

    def _write_header(self, batch: bytearray, filled: _Filled) -> None:
        is_append_time = self._timestamp_type == TimestampType.LOG_APPEND_TIME
        attributes = self._compression * (BATCH_COMPRESSION_MASK & -BATCH_COMPRESSION_MASK)
        for flag, mask in (
            (is_append_time, BATCH_TIMESTAMP_TYPE_MASK),
            (self._is_transactional, BATCH_IS_TRANSACTIONAL_MASK),
            (self._is_control, BATCH_IS_CONTROL_MASK),
            (self._delete_horizon_ms is not None, BATCH_HAS_DELETE_HORIZON_MASK),
        ):
            attributes |= mask if flag else 0
        batch[:BATCH_HEADER_BYTES] = pack_batch_header(
            attributes=attributes,
            base_offset=self._base_offset,
            base_sequence=self._base_sequence,
            base_timestamp=filled.base_timestamp,
            batch_length=len(batch) - BATCH_BATCH_LENGTH_COUNTS_FROM,
            crc=0,
            last_offset_delta=filled.last_offset_delta,
            magic=BATCH_MAGIC,
            max_timestamp=self._log_append_time if is_append_time else filled.max_timestamp,
            partition_leader_epoch=self._partition_leader_epoch,
            producer_epoch=self._producer_epoch,
            producer_id=self._producer_id,
            records_count=filled.records_count,
        )
        checksum = crc32c_of_bytes(memoryview(batch)[BATCH_CRC_COVERS_FROM:])
        batch[BATCH_CRC_AT:BATCH_CRC_COVERS_FROM] = checksum.to_bytes(BATCH_CRC_COVERS_FROM - BATCH_CRC_AT, "big")


def _column(path: str, source: BinaryColumn) -> BinaryColumn:
    """Return a checked copy of a column, which may have changed since its creation."""
    try:
        return BinaryColumn(source.offsets, source.data, source.validity)
    except AttributeError:
        raise EncodeError(path, f"expected a BinaryColumn, got {type(source).__name__}") from None
