"""Walk over the batches in a buffer.

A fetch response, a produce request and a log segment hold batches one after the other, of any magic. What is inside a
batch is up to `engines/` (magic 2) and `message_set.py` (magic 0 and 1).

Source: `ByteBufferLogInputStream` in Apache Kafka, which stops at a partial batch where this raises;
`docs/decisions/0011-partial-batches-are-errors.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_AT,
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MIN_BYTES,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of, size_of
from kafkawire.sdk.records.engine import RecordBatch, record_batch_class
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.engines.python_record import checked_place
from kafkawire.sdk.records.fields import packed
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.record import Record

__all__ = ["Batch", "read_records", "walk", "walk_headers", "walked_records"]

#: What `walk` yields: a batch of magic 2, or a message (perhaps a wrapper of many) of magic 0 or 1.
Batch = RecordBatch | MessageBatch

_BATCH_LENGTH = packed("RecordBatch", "batch_length")
#: The smallest message of any magic, without what its size does not count.
_MIN_LENGTH = MESSAGE_V0_MIN_BYTES - BATCH_BATCH_LENGTH_COUNTS_FROM


def walk(
    buffer: Buffer, check_crc: bool = True, *, limit: int = MAX_DECOMPRESSED_BYTES, engine: str | None = None
) -> Iterator[Batch]:
    """Yield the batches of a buffer in order.

    Args:
        buffer: batches; where the last one may be cut, as in a fetch response, catch `PartialBatch`.
        check_crc: whether to check the checksum of each batch before it is yielded.
        limit: most bytes that the records of one batch may have when decompressed.
        engine: `native`, `python` or `construct`; the one in use by default.

    Returns:
        An iterator of views of the buffer.

    Raises:
        PartialBatch: the bytes after the last whole batch are not a whole batch.
        DecodeError: what comes next is no batch, or its checksum is wrong.
        LocalProtocolError: the engine is not available here.
        TypeError: it is not a buffer, or not contiguous; the limit is no integer.
        OverflowError: the limit does not fit 64 bits.
    """
    native = engines.native if engine is None else engines.built if engine == "native" else None
    if native is not None:
        walked: Iterator[Batch] = native.Walk(buffer, check_crc, limit, _batch_at)
        return walked
    make = RecordBatch if engine is None else record_batch_class(engine)
    limit = size_of(limit)
    return _walk(bytes_of(buffer), check_crc, limit, make)


def walk_headers(buffer: Buffer) -> Iterator[Batch]:
    """Yield the batches of a buffer by their headers alone: `walk` without the checksum.

    Raises:
        PartialBatch: the bytes after the last whole batch are not a whole batch.
        DecodeError: what comes next is no batch.
    """
    return walk(buffer, check_crc=False)


def walked_records(
    buffer: Buffer,
    topic: str = "",
    partition: int = -1,
    *,
    check_crc: bool = True,
    limit: int = MAX_DECOMPRESSED_BYTES,
    engine: str | None = None,
) -> list[Record]:
    """Do what `read_records` does, batch by batch, on any engine."""
    partition = checked_place(topic, partition)
    records: list[Record] = []
    for batch in walk(buffer, check_crc, limit=limit, engine=engine):
        if isinstance(batch, MessageBatch) or not batch.is_control:
            records += batch.records(topic, partition)
    return records


if TYPE_CHECKING or engines.native is None:

    def read_records(
        buffer: Buffer,
        topic: str = "",
        partition: int = -1,
        *,
        check_crc: bool = True,
        limit: int = MAX_DECOMPRESSED_BYTES,
    ) -> list[Record]:
        """Return the records of all batches in a buffer; control records, which are not for applications, are left out.

        Args:
            buffer: whole batches of any magic.
            topic: set on each record.
            partition: set on each record.
            check_crc: whether to check each batch before its records are read.
            limit: most bytes that the records of one batch may have when decompressed.

        Raises:
            PartialBatch: the bytes after the last whole batch are not a whole batch.
            DecodeError: a batch or its records are damaged.
        """
        return walked_records(buffer, topic, partition, check_crc=check_crc, limit=limit)
else:
    # One call from bytes to records: most of what a batch of one record takes is calls.
    read_records = engines.native.read_records


def _walk(view: memoryview, check_crc: bool, limit: int, make: type[RecordBatch]) -> Iterator[Batch]:
    """Do what the extension's `Walk` does."""
    position = 0
    while position < len(view):
        batch = _batch_at(view, position, limit, make)
        if check_crc:
            batch.check_crc()
        yield batch
        position += batch.size_in_bytes


def _batch_at(buffer: Buffer, position: int, limit: int, make: type[RecordBatch] = RecordBatch) -> Batch:
    """Return the batch at `position`; raise what is wrong with it."""
    view = bytes_of(buffer)
    _check_size(view, position)
    if view[position + BATCH_MAGIC_AT] == BATCH_MAGIC:
        return make(view, position, limit)
    return MessageBatch(view, position, limit)


def _check_size(view: memoryview, position: int) -> None:
    """Check, in Kafka's order, that a whole batch of a known magic is at `position`."""
    left = len(view) - position
    if left < BATCH_BATCH_LENGTH_COUNTS_FROM:
        raise PartialBatch(position, left, None)
    (length,) = _BATCH_LENGTH.unpack_from(view, position + BATCH_BATCH_LENGTH_AT)
    if length < _MIN_LENGTH:
        reason = f"{length} bytes announced, no batch or message has fewer than {_MIN_LENGTH}"
        raise DecodeError("batch_length", position + BATCH_BATCH_LENGTH_AT, reason)
    if left <= BATCH_MAGIC_AT:
        raise PartialBatch(position, left, None)
    magic = view[position + BATCH_MAGIC_AT]
    if magic > BATCH_MAGIC:
        reason = f"magic {magic}, {MESSAGE_V0_MAGIC} to {BATCH_MAGIC} are known"
        raise DecodeError("magic", position + BATCH_MAGIC_AT, reason)
    size = length + BATCH_BATCH_LENGTH_COUNTS_FROM
    if size > left:
        raise PartialBatch(position, left, size)
