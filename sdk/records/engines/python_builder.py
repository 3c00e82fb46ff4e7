"""Build a record batch (magic 2) in Python: the twin of the extension's `BatchBuilder`.

Records are appended straight into the wire layout behind the bytes that the header will take; sealing writes the
header and the checksum and gives the batch out without a copy.

Source: `MemoryRecordsBuilder`, `DefaultRecord` in Apache Kafka; `schemas/records/`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HAS_DELETE_HORIZON_MASK,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_TIMESTAMP_TYPE_MASK,
    Compression,
    TimestampType,
)
from kafkawire.sdk.records.compression import compress
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.java_integers import int64
from kafkawire.sdk.records.limits import DEFAULT_BATCH_BYTES
from kafkawire.sdk.records.record import BinaryColumn, HeadersLike

__all__ = ["BatchBuilder"]

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_ATTRIBUTES = b"\x00"


class BatchBuilder:
    """A batch that grows.

    Args:
        limit_bytes: the size before compression that further records must not exceed; the first is always taken.
        compression: of the records.
        level: of the compression, see `LEVELS`.
        timestamp_type: who sets the timestamps; with LOG_APPEND_TIME all records have `log_append_time`.
        log_append_time: ms since the epoch.
        base_offset: of the first record; a client leaves it 0, the broker sets it.
        producer_id, producer_epoch, base_sequence: of an idempotent producer.
        is_transactional: whether the batch belongs to a transaction.
        is_control: whether it holds control records.
        partition_leader_epoch: a client leaves it -1, the broker sets it.
        delete_horizon_ms: when compaction may remove tombstones; None before it has seen the batch.

    Attributes:
        count: records so far.
        size_bytes: of the batch before compression.
        producer_id, producer_epoch, base_sequence, is_transactional: may be set until, and between, calls of `seal`.
        last_offset_delta: of the last record; may be raised before `seal`, as compaction does.
    """

    __slots__ = (
        "_base_timestamp",
        "_compressed",
        "_data",
        "_limit_bytes",
        "_max_timestamp",
        "_sealed",
        "base_offset",
        "base_sequence",
        "compression",
        "count",
        "delete_horizon_ms",
        "is_control",
        "is_transactional",
        "last_offset_delta",
        "level",
        "log_append_time",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "timestamp_type",
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
        self._limit_bytes = limit_bytes
        self.compression = compression
        self.level = level
        self.timestamp_type = timestamp_type
        self.log_append_time = log_append_time
        self.base_offset = base_offset
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control = is_control
        self.partition_leader_epoch = partition_leader_epoch
        self.delete_horizon_ms = delete_horizon_ms
        self.count = 0
        self.last_offset_delta = -1
        self._base_timestamp = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._data = bytearray(BATCH_HEADER_BYTES)
        self._compressed: bytes | None = None
        self._sealed = False

    @property
    def size_bytes(self) -> int:
        """The size of the batch before compression."""
        return len(self._data)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike = (),
    ) -> int | None:
        """Add a record behind the last one.

        Args:
            timestamp: ms since the epoch, -1 for none.
            key: None for none.
            value: None for a tombstone.
            headers: (name, value) in order.

        Returns:
            Its offset relative to the batch; None if it does not fit, and was not added.

        Raises:
            EncodeError: a value does not fit into the format, or the batch is sealed.
        """
        delta = self.last_offset_delta + 1
        return delta if self._add(delta, timestamp, key, value, headers) else None

    def append_at(
        self,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike = (),
    ) -> int | None:
        """Add a record with a given offset, which must be behind the last one; otherwise as `append`."""
        delta = offset - self.base_offset
        if delta <= self.last_offset_delta:
            last = self.base_offset + self.last_offset_delta
            raise EncodeError("offset", f"{offset} does not follow {last}, offsets increase")
        return delta if self._add(delta, timestamp, key, value, headers) else None

    def append_many(self, values: Iterable[Buffer | None], timestamp: int) -> int:
        """Add records that have a value and nothing else, until one does not fit.

        Returns:
            How many were added.

        Raises:
            EncodeError: as `append`; those before it were added.
        """
        added = 0
        for value in values:
            if self.append(timestamp, None, value) is None:
                break
            added += 1
        return added

    def append_columns(
        self, values: BinaryColumn, timestamp: int, keys: BinaryColumn | None = None, start: int = 0
    ) -> int:
        """Add records from columns in Arrow's binary layout, until one does not fit.

        Args:
            values: a value for each record.
            timestamp: of all, ms since the epoch.
            keys: a key for each record; None for records without.
            start: the row to begin with.

        Returns:
            How many were added.

        Raises:
            EncodeError: as `append`; or a column's offsets leave its data, or the columns differ in length.
        """
        rows = len(values)
        if keys is not None and len(keys) != rows:
            raise EncodeError("keys", f"{len(keys)} keys for {rows} values")
        for row in range(start, rows):
            if self.append(timestamp, None if keys is None else keys[row], values[row]) is None:
                return row - start
        return max(rows - start, 0)

    def seal(self) -> memoryview:
        """Write the header and return the batch, empty if it has no records; nothing can be added any more.

        It may be called again after a change of the producer's fields: the header is written anew, in place.

        Returns:
            A view of the builder's memory.

        Raises:
            EncodeError: the producer's fields do not agree, or the level of the compression does not exist.
        """
        self._check()
        self._sealed = True
        if not self.count:
            return memoryview(b"")
        batch = self._data
        if self.compression != Compression.NONE:
            if self._compressed is None:
                self._compressed = compress(self.compression, memoryview(self._data)[BATCH_HEADER_BYTES:], self.level)
            batch = bytearray(BATCH_HEADER_BYTES)
            batch += self._compressed
        self._write_header(batch)
        return memoryview(batch).toreadonly()

    def build(self) -> bytes:
        """Return the batch as `seal` does, copied."""
        return bytes(self.seal())

    def _add(
        self,
        delta: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike,
    ) -> bool:
        if self._sealed:
            raise EncodeError("", "the batch is sealed")
        if not NO_TIMESTAMP <= timestamp <= _INT64_MAX:
            raise EncodeError("timestamp", f"{timestamp} is not a time in ms, nor -1 for none")
        if delta > _INT32_MAX:
            raise EncodeError("offset", f"{delta} behind the first of the batch, {_INT32_MAX} at most")
        is_first = not self.count
        if is_first and self.delete_horizon_ms is None:
            self._base_timestamp = timestamp
        record = bytearray(_ATTRIBUTES)
        _put(record, int64(timestamp - self._base_timestamp))
        _put(record, delta)
        _put_bytes(record, key, "key")
        _put_bytes(record, value, "value")
        _put(record, len(headers))
        for name, content in headers:
            if not isinstance(name, str):
                raise EncodeError("headers", f"expected a string as the name, got {type(name).__name__}")
            _put_bytes(record, name.encode("utf-8", "replace"), "headers")
            _put_bytes(record, content, "headers")
        length = bytearray()
        _put(length, len(record))
        size = len(self._data) + len(length) + len(record)
        if size > _INT32_MAX or (size > self._limit_bytes and not is_first):
            return False
        self._data += length
        self._data += record
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.last_offset_delta = delta
        self.count += 1
        return True

    def _check(self) -> None:
        """Refuse what no broker would take."""
        if self.producer_id == NO_PRODUCER_ID:
            if self.is_transactional:
                raise EncodeError("producer_id", "a transactional batch has one")
        elif self.producer_epoch < 0:
            raise EncodeError("producer_epoch", f"{self.producer_epoch}, with a producer id it is at least 0")
        elif self.base_sequence < 0 and not self.is_control:
            raise EncodeError("base_sequence", f"{self.base_sequence}, with a producer id it is at least 0")

    def _write_header(self, batch: bytearray) -> None:
        is_append_time = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        attributes = int(self.compression)
        for flag, mask in (
            (is_append_time, BATCH_TIMESTAMP_TYPE_MASK),
            (self.is_transactional, BATCH_IS_TRANSACTIONAL_MASK),
            (self.is_control, BATCH_IS_CONTROL_MASK),
            (self.delete_horizon_ms is not None, BATCH_HAS_DELETE_HORIZON_MASK),
        ):
            attributes |= mask if flag else 0
        try:
            BATCH_HEADER.pack_into(
                batch,
                0,
                self.base_offset,
                len(batch) - BATCH_BATCH_LENGTH_COUNTS_FROM,
                self.partition_leader_epoch,
                BATCH_MAGIC,
                0,
                attributes,
                self.last_offset_delta,
                self._base_timestamp,
                self.log_append_time if is_append_time else self._max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            )
        except struct.error as error:
            raise EncodeError("batch", str(error)) from None
        checksum = crc32c(memoryview(batch)[BATCH_CRC_COVERS_FROM:])
        batch[BATCH_CRC_AT:BATCH_CRC_COVERS_FROM] = checksum.to_bytes(BATCH_CRC_COVERS_FROM - BATCH_CRC_AT, "big")


def _put(target: bytearray, value: int) -> None:
    """Append a zigzag number."""
    value = value << 1 if value >= 0 else ~value << 1 | 1
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)


def _put_bytes(target: bytearray, value: Buffer | None, path: str) -> None:
    """Append bytes behind their length, -1 for None."""
    if value is None:
        _put(target, -1)
        return
    try:
        content = memoryview(value).cast("B")
    except TypeError as error:
        raise EncodeError(path, f"expected bytes or None, got {type(value).__name__}") from error
    _put(target, len(content))
    target += content
