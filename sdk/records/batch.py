"""Change batches of magic 2: stamp them, correct their timestamps in place, recompress them, or remove records.

A broker stamps and recompresses the batches that it appends, and rewrites those that it compacts.

Source: `LogValidator`, `MemoryRecords.filterTo`, `DefaultRecordBatch.writeEmptyHeader` in Apache Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.primitives import LIMITS
from kafkawire.sdk.protocol.tables.enums import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_ATTRIBUTES_AT,
    BATCH_BASE_OFFSET_AT,
    BATCH_BATCH_LENGTH_AT,
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HAS_DELETE_HORIZON_MASK,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_PARTITION_LEADER_EPOCH_AT,
    BATCH_TIMESTAMP_TYPE_MASK,
    Compression,
    TimestampType,
)
from kafkawire.sdk.records.compression import compress
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.engine import BatchBuilder, RecordBatch
from kafkawire.sdk.records.engines.shared_arguments import checked_content, checked_number
from kafkawire.sdk.records.fields import packed
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.record import Record

__all__ = ["empty_batch", "place", "recompress", "rewrite", "set_max_timestamp", "stamp"]

_BASE_OFFSET = packed("RecordBatch", "base_offset")
_BATCH_LENGTH = packed("RecordBatch", "batch_length")
_PARTITION_LEADER_EPOCH = packed("RecordBatch", "partition_leader_epoch")
_CHECKSUM = packed("RecordBatch", "crc")
_ATTRIBUTES = packed("RecordBatch", "attributes")
_MAX_TIMESTAMP = packed("RecordBatch", "max_timestamp")

#: The remaining known attributes; a rewrite drops unknown bits, as in Kafka.
_ATTRIBUTES_KEPT = (
    BATCH_COMPRESSION_MASK | BATCH_IS_TRANSACTIONAL_MASK | BATCH_IS_CONTROL_MASK | BATCH_HAS_DELETE_HORIZON_MASK
)


def stamp(
    buffer: bytearray | memoryview,
    base_offset: int,
    partition_leader_epoch: int,
    *,
    position: int = 0,
    log_append_time: int | None = None,
) -> None:
    """Write the leader's fields into a batch of magic 2, in place and without decompressing it.

    The checksum does not cover the offset and the epoch, but it is recomputed if the timestamp changes.

    Args:
        buffer: a writable buffer with the batch.
        base_offset: the offset of the first record.
        partition_leader_epoch: the leader's epoch.
        position: the position at which the batch begins.
        log_append_time: the timestamp for all its records; None to keep each record's own.

    Raises:
        DecodeError: the buffer has no whole batch of magic 2 there.
        EncodeError: a number does not fit, or the buffer is read-only; nothing has been written.
    """
    view = _writable(buffer)
    size = _batch_bytes(view, position)
    base_offset = checked_number("base_offset", base_offset, *LIMITS["int64"])
    partition_leader_epoch = checked_number("partition_leader_epoch", partition_leader_epoch, *LIMITS["int32"])
    if log_append_time is not None:
        log_append_time = checked_number("log_append_time", log_append_time, *LIMITS["int64"])
    # From here on, no value is refused.
    _BASE_OFFSET.pack_into(view, position + BATCH_BASE_OFFSET_AT, base_offset)
    _PARTITION_LEADER_EPOCH.pack_into(view, position + BATCH_PARTITION_LEADER_EPOCH_AT, partition_leader_epoch)
    if log_append_time is not None:
        _write_max_timestamp(view[position : position + size], TimestampType.LOG_APPEND_TIME, log_append_time)


def place(batch: bytearray | memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Write the offset and the epoch into a batch of magic 2 that has been checked; use `stamp` for any other.

    Args:
        batch: a writable buffer that begins with the batch.
        base_offset: the offset of the first record.
        partition_leader_epoch: the leader's epoch.
    """
    _BASE_OFFSET.pack_into(batch, BATCH_BASE_OFFSET_AT, base_offset)
    _PARTITION_LEADER_EPOCH.pack_into(batch, BATCH_PARTITION_LEADER_EPOCH_AT, partition_leader_epoch)


def set_max_timestamp(buffer: bytearray | memoryview, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Write the highest timestamp and the timestamp type into a batch of magic 2, and recompute its checksum.

    Args:
        buffer: a writable buffer that begins with the batch.
        timestamp_type: who set the timestamp.
        max_timestamp: the highest timestamp; for LOG_APPEND_TIME, the timestamp of all records.

    Raises:
        DecodeError: the buffer has no whole batch of magic 2 there.
        EncodeError: the number does not fit, or the buffer is read-only; nothing has been written.
    """
    view = _writable(buffer)
    size = _batch_bytes(view, 0)
    max_timestamp = checked_number("max_timestamp", max_timestamp, *LIMITS["int64"])
    _write_max_timestamp(view[:size], timestamp_type, max_timestamp)


def _write_max_timestamp(view: memoryview, timestamp_type: TimestampType, max_timestamp: int) -> None:
    (attributes,) = _ATTRIBUTES.unpack_from(view, BATCH_ATTRIBUTES_AT)
    attributes &= _ATTRIBUTES_KEPT
    if timestamp_type == TimestampType.LOG_APPEND_TIME:
        attributes |= BATCH_TIMESTAMP_TYPE_MASK
    _ATTRIBUTES.pack_into(view, BATCH_ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(view, BATCH_MAX_TIMESTAMP_AT, max_timestamp)
    _CHECKSUM.pack_into(view, BATCH_CRC_AT, crc32c(view[BATCH_CRC_COVERS_FROM:]))


def recompress(batch: RecordBatch, compression: Compression, level: int | None = None) -> bytearray:
    """Return a batch with the same records, compressed differently.

    Args:
        batch: the original batch.
        compression: the new compression.
        level: see `compress`.

    Raises:
        DecodeError: its records cannot be decompressed.
        EncodeError: the level is outside the range of the codec.
    """
    data = bytearray(batch.data[:BATCH_HEADER_BYTES])
    data += compress(compression, batch.payload(), level)
    _BATCH_LENGTH.pack_into(data, BATCH_BATCH_LENGTH_AT, len(data) - BATCH_BATCH_LENGTH_COUNTS_FROM)
    _ATTRIBUTES.pack_into(data, BATCH_ATTRIBUTES_AT, batch.attributes & ~BATCH_COMPRESSION_MASK | compression)
    _CHECKSUM.pack_into(data, BATCH_CRC_AT, crc32c(memoryview(data)[BATCH_CRC_COVERS_FROM:]))
    return data


def rewrite(batch: RecordBatch, records: Iterable[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """Return a batch with only some of its records, as compaction writes it.

    Base offset, last offset delta and base sequence are kept, so offsets and sequence numbers remain accounted for. If
    no records remain, the result is just an uncompressed header.

    Args:
        batch: the original batch.
        records: the remaining records, in order.
        delete_horizon_ms: the time from which tombstones may be removed; None to keep the batch's own if it is 0 or
            above.

    Raises:
        EncodeError: the records are not in order, or have timestamps below -1. As in Kafka, a batch whose log append
            time is below -1 can be built and read, but not rewritten.
    """
    if delete_horizon_ms is None:
        delete_horizon_ms = batch.delete_horizon_ms
    kept = list(records)
    if not kept:
        return empty_batch(
            base_offset=batch.base_offset,
            last_offset_delta=batch.last_offset_delta,
            partition_leader_epoch=batch.partition_leader_epoch,
            timestamp_type=batch.timestamp_type,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
    builder = BatchBuilder(
        INT32_MAX,
        batch.compression,
        timestamp_type=batch.timestamp_type,
        log_append_time=batch.max_timestamp if batch.timestamp_type else NO_TIMESTAMP,
        base_offset=batch.base_offset,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=delete_horizon_ms,
    )
    for record in kept:
        builder.append_at(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
    builder.last_offset_delta = batch.last_offset_delta
    return builder.build()


def empty_batch(
    *,
    base_offset: int,
    last_offset_delta: int,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return the header that remains after compaction has removed all records of a batch.

    It keeps the offsets, the producer and the sequence numbers, but has no compression, base timestamp or delete
    horizon.

    Raises:
        EncodeError: a number does not fit.
    """
    attributes = BATCH_TIMESTAMP_TYPE_MASK if timestamp_type == TimestampType.LOG_APPEND_TIME else 0
    attributes |= BATCH_IS_TRANSACTIONAL_MASK if is_transactional else 0
    attributes |= BATCH_IS_CONTROL_MASK if is_control else 0
    fields = [
        base_offset,
        BATCH_HEADER_BYTES - BATCH_BATCH_LENGTH_COUNTS_FROM,
        partition_leader_epoch,
        BATCH_MAGIC,
        0,
        attributes,
        last_offset_delta,
        NO_TIMESTAMP,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        0,
    ]
    batch = bytearray(BATCH_HEADER_BYTES)
    try:
        BATCH_HEADER.pack_into(batch, 0, *fields)
    except struct.error as error:
        raise EncodeError("batch", str(error)) from None
    _CHECKSUM.pack_into(batch, BATCH_CRC_AT, crc32c(memoryview(batch)[BATCH_CRC_COVERS_FROM:]))
    return bytes(batch)


def _writable(buffer: bytearray | memoryview) -> memoryview:
    """Return a writable view of a buffer.

    Raises:
        EncodeError: the buffer is read-only or is not contiguous.
    """
    view = checked_content("buffer", buffer)
    if view.readonly:
        raise EncodeError("buffer", f"expected a writable buffer, got a read-only {type(buffer).__name__}")
    return view


def _batch_bytes(view: memoryview, position: int) -> int:
    """Return the size of the batch of magic 2 at `position`.

    Raises:
        DecodeError: no batch begins there, or it is cut off.
    """
    if not 0 <= position <= len(view) - BATCH_HEADER_BYTES or view[position + BATCH_MAGIC_AT] != BATCH_MAGIC:
        raise DecodeError("batch", position, f"expected a complete batch with magic {BATCH_MAGIC}")
    return RecordBatch(view, position).size_in_bytes
