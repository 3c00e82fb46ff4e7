"""Walk over the batches in a buffer, and change them in place.

A fetch response, a produce request and a log segment hold batches one after the other, of any magic; the last one may
be cut and is then left out. What is inside a batch is the matter of `python_batch.py` or the extension (magic 2) and of
`message_set.py` (magic 0 and 1).

Source: `ByteBufferLogInputStream`, `MemoryRecords`, `LogValidator` in Apache Kafka; `schemas/records/`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from kafkawire.sdk.errors import DecodeError, EncodeError, LocalProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES
from kafkawire.sdk.protocol.schema import Buffer
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
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_PARTITION_LEADER_EPOCH_AT,
    BATCH_TIMESTAMP_TYPE_MASK,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MIN_BYTES,
    TimestampType,
)
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.engines import python_batch, python_builder
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.record import Record

__all__ = [
    "Batch",
    "BatchBuilder",
    "RecordBatch",
    "batch_builder_class",
    "empty_batch",
    "record_batch_class",
    "rewrite",
    "stamp",
    "walk",
    "walk_headers",
]

if TYPE_CHECKING or engines.native is None:
    BatchBuilder = python_builder.BatchBuilder
    RecordBatch = python_batch.RecordBatch
    if not TYPE_CHECKING and ENGINE == "construct":
        from kafkawire.sdk.records.engines.construct import ConstructBatch as RecordBatch
else:
    BatchBuilder = engines.native.BatchBuilder
    RecordBatch = engines.native.RecordBatch

#: What `walk` gives: a batch of magic 2, or a message (perhaps a wrapper of many) of magic 0 or 1.
Batch = RecordBatch | MessageBatch

_INT32 = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CHECKSUM = struct.Struct(">I")
#: The smallest message of any magic, without what its size does not count.
_MIN_BYTES = MESSAGE_V0_MIN_BYTES - BATCH_BATCH_LENGTH_COUNTS_FROM


def walk(
    buffer: Buffer, check_crc: bool = True, *, limit: int = MAX_DECOMPRESSED_BYTES, engine: str | None = None
) -> Iterator[Batch]:
    """Give the batches of a buffer one after the other.

    Args:
        buffer: whole batches; a cut one at the end is left out without an error.
        check_crc: whether to check each before it is given.
        limit: most bytes that the records of one batch may have when decompressed.
        engine: `native`, `python` or `construct`; the one in use by default.

    Returns:
        An iterator of views of the buffer.

    Raises:
        DecodeError: what comes next is no batch, or its checksum is wrong.
        LocalProtocolError: the engine is not available here.
    """
    native = engines.native if engine is None else engines.built if engine == "native" else None
    if native is not None:
        walked: Iterator[Batch] = native.Walk(buffer, check_crc, limit, _next_batch)
        return walked
    return _walk(buffer, check_crc, limit, RecordBatch if engine is None else record_batch_class(engine))


def walk_headers(buffer: Buffer) -> Iterator[Batch]:
    """Give the batches of a buffer without a look behind their headers: `walk` without the checksum.

    Raises:
        DecodeError: what comes next is no batch.
    """
    return walk(buffer, check_crc=False)


def stamp(
    buffer: bytearray | memoryview,
    base_offset: int,
    partition_leader_epoch: int,
    *,
    position: int = 0,
    log_append_time: int | None = None,
) -> None:
    """Write into a batch of magic 2 what its leader decides, in place and without decompressing it.

    Offset and epoch are outside the checksum; a timestamp is not, and the checksum is made anew.

    Args:
        buffer: holds the batch, writable.
        base_offset: of the first record.
        partition_leader_epoch: of the leader.
        position: where the batch begins.
        log_append_time: the timestamp of all its records; None to leave them theirs.

    Raises:
        DecodeError: there is no whole batch of magic 2.
        EncodeError: a number does not fit, or the buffer cannot be written.
    """
    view = memoryview(buffer).cast("B")
    size = python_batch.RecordBatch(view, position).size_in_bytes if log_append_time is not None else BATCH_HEADER_BYTES
    if len(view) - position < size or view[position + BATCH_MAGIC_AT] != BATCH_MAGIC:
        raise DecodeError("batch", position, f"no batch of magic {BATCH_MAGIC}")
    try:
        _TIMESTAMP.pack_into(view, position + BATCH_BASE_OFFSET_AT, base_offset)
        _INT32.pack_into(view, position + BATCH_PARTITION_LEADER_EPOCH_AT, partition_leader_epoch)
        if log_append_time is None:
            return
        (attributes,) = _ATTRIBUTES.unpack_from(view, position + BATCH_ATTRIBUTES_AT)
        _ATTRIBUTES.pack_into(view, position + BATCH_ATTRIBUTES_AT, attributes | BATCH_TIMESTAMP_TYPE_MASK)
        _TIMESTAMP.pack_into(view, position + BATCH_MAX_TIMESTAMP_AT, log_append_time)
    except (struct.error, TypeError) as error:
        raise EncodeError("stamp", str(error)) from None
    checksum = crc32c(view[position + BATCH_CRC_COVERS_FROM : position + size])
    _CHECKSUM.pack_into(view, position + BATCH_CRC_AT, checksum)


def rewrite(batch: RecordBatch, records: Iterable[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """Return a batch with some of its records, as compaction writes it.

    Base offset, last offset delta and base sequence stay, so that offsets and sequence numbers remain accounted for.
    Without any record the header alone is left, uncompressed.

    Args:
        batch: as it was.
        records: what remains, in order.
        delete_horizon_ms: when tombstones may go; None to keep what the batch says.

    Raises:
        EncodeError: the records are not in order.
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
        2**31 - 1,
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
        builder.append_at(record.offset, record.timestamp, record.key, record.value, record.headers)
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
    """Return the header that is left when compaction has removed all records of a batch.

    It keeps offsets, producer and sequence numbers; compression, base timestamp and delete horizon are gone.

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


def record_batch_class(engine: str) -> type[RecordBatch]:
    """Return the `RecordBatch` of an engine.

    Args:
        engine: `native`, `python` or `construct`.

    Raises:
        LocalProtocolError: it is not available here.
    """
    if engine == "native" and engines.built is not None:
        return cast(type[RecordBatch], engines.built.RecordBatch)
    if engine == "python":
        return python_batch.RecordBatch
    if engine == "construct":
        from kafkawire.sdk.records.engines.construct import ConstructBatch

        return ConstructBatch
    raise _unavailable(engine)


def batch_builder_class(engine: str) -> type[BatchBuilder]:
    """Return the `BatchBuilder` of an engine; the construct form only reads, it has the twin's.

    Args:
        engine: `native`, `python` or `construct`.

    Raises:
        LocalProtocolError: it is not available here.
    """
    if engine == "native" and engines.built is not None:
        return cast(type[BatchBuilder], engines.built.BatchBuilder)
    if engine in ("python", "construct"):
        return python_builder.BatchBuilder
    raise _unavailable(engine)


def _walk(buffer: Buffer, check_crc: bool, limit: int, make: type[RecordBatch]) -> Iterator[Batch]:
    """Do what the extension's `Walk` does."""
    view = memoryview(buffer).cast("B")
    position = 0
    while (batch := _next_batch(view, position, limit, make)) is not None:
        if check_crc:
            batch.check_crc()
        yield batch
        position += batch.size_in_bytes


def _next_batch(buffer: Buffer, position: int, limit: int, make: type[RecordBatch] = RecordBatch) -> Batch | None:
    """Return the batch at `position`; None at the end, also if it is cut."""
    view = memoryview(buffer).cast("B")
    if _next_size(view, position) is None:
        return None
    if view[position + BATCH_MAGIC_AT] == BATCH_MAGIC:
        return make(view, position, limit)
    return MessageBatch(view, position, limit)


def _unavailable(engine: str) -> LocalProtocolError:
    available = [name for name in ENGINES if name != "native" or engines.built is not None]
    return LocalProtocolError(f"engine {engine!r} is not available, {', '.join(available)} are")


def _next_size(view: memoryview, position: int) -> int | None:
    """Return the size of the batch at `position`; None at the end, also if it is cut."""
    left = len(view) - position
    if left < BATCH_BATCH_LENGTH_COUNTS_FROM:
        return None
    (length,) = _INT32.unpack_from(view, position + BATCH_BATCH_LENGTH_AT)
    if length < _MIN_BYTES:
        reason = f"{length} bytes announced, no batch or message has fewer than {_MIN_BYTES}"
        raise DecodeError("batch_length", position + BATCH_BATCH_LENGTH_AT, reason)
    if left <= BATCH_MAGIC_AT:
        return None
    magic = view[position + BATCH_MAGIC_AT]
    if magic > BATCH_MAGIC:
        reason = f"magic {magic}, {MESSAGE_V0_MAGIC} to {BATCH_MAGIC} are known"
        raise DecodeError("magic", position + BATCH_MAGIC_AT, reason)
    size: int = length + BATCH_BATCH_LENGTH_COUNTS_FROM
    return size if size <= left else None
