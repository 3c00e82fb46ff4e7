"""Walk over the batches of a buffer in Python, as the extension's `Walk` does; it leaves unusual ones to `batch_at`.

Source: `ByteBufferLogInputStream` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.engine import RecordBatch
from kafkawire.sdk.records.fields import packed
from kafkawire.sdk.records.message_set import MessageBatch

__all__ = ["Batch", "batch_at", "walk"]

#: The items of `walk`: a batch of magic 2, or a message of magic 0 or 1, perhaps a wrapper of many.
Batch = RecordBatch | MessageBatch

_BATCH_LENGTH = packed("RecordBatch", "batch_length")
#: Size of the smallest message of any magic, as counted by its size field.
_MIN_LENGTH = MESSAGE_V0_MIN_BYTES - BATCH_BATCH_LENGTH_COUNTS_FROM


def walk(view: memoryview, check_crc: bool, limit: int, make: type[RecordBatch]) -> Iterator[Batch]:
    """Yield the batches of a buffer in order (see `records/walk.py`)."""
    position = 0
    while position < len(view):
        batch = batch_at(view, position, limit, make)
        if check_crc:
            batch.check_crc()
        yield batch
        position += batch.size_in_bytes


def batch_at(buffer: Buffer, position: int, limit: int, make: type[RecordBatch] = RecordBatch) -> Batch:
    """Return the batch at `position`; raise an error if it is malformed."""
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
        reason = f"the length is {length} bytes, but no batch or message has fewer than {_MIN_LENGTH}"
        raise DecodeError("batch_length", position + BATCH_BATCH_LENGTH_AT, reason)
    if left <= BATCH_MAGIC_AT:
        raise PartialBatch(position, left, None)
    magic = view[position + BATCH_MAGIC_AT]
    if magic > BATCH_MAGIC:
        reason = f"magic {magic} is unknown; expected {MESSAGE_V0_MAGIC} to {BATCH_MAGIC}"
        raise DecodeError("magic", position + BATCH_MAGIC_AT, reason)
    size = length + BATCH_BATCH_LENGTH_COUNTS_FROM
    if size > left:
        raise PartialBatch(position, left, size)
