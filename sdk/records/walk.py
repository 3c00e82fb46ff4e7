"""Walk over the batches in a buffer.

Fetch responses, produce requests and log segments contain consecutive batches of any magic. `engines/` (magic 2) and
`message_set.py` (magic 0 and 1) read their content.

Source: `ByteBufferLogInputStream` in Apache Kafka, which stops at a partial batch, whereas this module raises an error;
`docs/decisions/0011-partial-batches-are-errors.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of, size_of
from kafkawire.sdk.records.engine import RecordBatch, record_batch_class
from kafkawire.sdk.records.engines import python_walk
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.engines.python_record import checked_place
from kafkawire.sdk.records.engines.python_walk import Batch
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.record import Record

__all__ = ["Batch", "read_records", "walk", "walk_headers", "walked_records"]


def walk(
    buffer: Buffer, check_crc: bool = True, *, limit: int = MAX_DECOMPRESSED_BYTES, engine: str | None = None
) -> Iterator[Batch]:
    """Yield the batches of a buffer in order.

    Args:
        buffer: the batches; if the last one may be cut off, as in a fetch response, catch `PartialBatch`.
        check_crc: whether to check the checksum of each batch before it is yielded.
        limit: the maximum size of the decompressed records of one batch, in bytes.
        engine: `native`, `python` or `construct`; defaults to the engine in use.

    Returns:
        An iterator of views of the buffer.

    Raises:
        PartialBatch: the bytes after the last whole batch are not a whole batch.
        DecodeError: the next bytes are not a batch, or its checksum is wrong.
        LocalProtocolError: the engine is not available here.
        TypeError: `buffer` is not a contiguous buffer, or the limit is not an integer.
        OverflowError: the limit does not fit 64 bits.
    """
    native = engines.native if engine is None else engines.built if engine == "native" else None
    if native is not None:
        walked: Iterator[Batch] = native.Walk(buffer, check_crc, limit, python_walk.batch_at)
        return walked
    make = RecordBatch if engine is None else record_batch_class(engine)
    limit = size_of(limit)
    return python_walk.walk(bytes_of(buffer), check_crc, limit, make)


def walk_headers(buffer: Buffer) -> Iterator[Batch]:
    """Yield the batches of a buffer, reading only their headers: `walk` without the checksums.

    Raises:
        PartialBatch: the bytes after the last whole batch are not a whole batch.
        DecodeError: the next bytes are not a batch.
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
    """Read records as `read_records` does, batch by batch, on any engine."""
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
        """Return the records of all batches in a buffer, except control records, which applications never see.

        Args:
            buffer: whole batches of any magic.
            topic: set on each record.
            partition: set on each record.
            check_crc: whether to check each batch before its records are read.
            limit: the maximum size of the decompressed records of one batch, in bytes.

        Raises:
            PartialBatch: the bytes after the last whole batch are not a whole batch.
            DecodeError: a batch or its records are damaged.
        """
        return walked_records(buffer, topic, partition, check_crc=check_crc, limit=limit)
else:
    # One call turns bytes into records, since calls take most of the time for a batch with one record.
    read_records = engines.native.read_records
