"""Batches as the log sees them: a header and a region of a file.

Searching and recovering read headers only and leave the records where they are; the few places that need records (a
lookup by time, the broker's own topics) read one batch at a time.

Source: record batch, magic 2, in `schemas/records/`; `FileLogInputStream` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.reference_broker.log.file import LogFile
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_TIMESTAMP_TYPE_MASK,
)
from kafkawire.sdk.records import BatchBuilder, crc32c, walk

if TYPE_CHECKING:
    from kafkawire.reference_broker.log.partition_log import PartitionLog

__all__ = ["BatchHeader", "build_batch", "headers_in", "parse_header", "read_header", "record_timestamps", "records_in"]

#: How much recovery reads at once: large enough that reading costs little, small enough not to matter in memory.
_CHUNK_BYTES = 4 * 1024 * 1024

#: The broker's own batches are as large as they have to be.
_NO_LIMIT = 2**31 - 1


class BatchHeader(NamedTuple):
    """The header of a batch.

    Attributes:
        position: where the batch begins in its file.
        size_bytes: of the batch, its header included.
        base_offset: of the first record.
        leader_epoch: of the leader that wrote it.
        magic: the format's version.
        crc: of everything from the attributes on.
        attributes: bits, see the properties below.
        last_offset_delta: added to the base offset gives the last offset.
        base_timestamp: of the first record.
        max_timestamp: the highest.
        producer_id: -1 without idempotence.
        producer_epoch: -1 without idempotence.
        base_sequence: -1 without idempotence.
        records_count: fewer than offsets after compaction.
    """

    position: int
    size_bytes: int
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also if compaction removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """How the records are compressed."""
        return self.attributes & BATCH_COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker set the timestamps."""
        return bool(self.attributes & BATCH_TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & BATCH_IS_TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the batch carries a marker instead of records."""
        return bool(self.attributes & BATCH_IS_CONTROL_MASK)


def parse_header(data: Buffer, at: int = 0, position: int = 0) -> BatchHeader:
    """Return the header of a batch.

    Args:
        data: holds at least the header.
        at: where the batch begins in `data`.
        position: where it begins in its file.
    """
    base_offset, length, *rest = BATCH_HEADER.unpack_from(data, at)
    return BatchHeader(position, length + BATCH_BATCH_LENGTH_COUNTS_FROM, base_offset, *rest)


def read_header(file: LogFile, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`; None if no whole batch is there."""
    data = file.read(position, BATCH_HEADER_BYTES)
    if len(data) < BATCH_HEADER_BYTES:
        return None
    header = parse_header(data, 0, position)
    is_whole = BATCH_HEADER_BYTES <= header.size_bytes <= file.size_bytes - position
    return header if is_whole else None


def headers_in(file: LogFile, next_offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of all good batches of a file: whole, with the right checksum, in the order of their offsets.

    Args:
        file: read from its start.
        next_offset: no offset may be lower.
    """
    position = 0
    chunk, chunk_start = b"", 0
    while (header := read_header(file, position)) is not None:
        end = position + header.size_bytes
        if end > chunk_start + len(chunk):
            chunk, chunk_start = file.read(position, max(_CHUNK_BYTES, header.size_bytes)), position
        covered = memoryview(chunk)[position - chunk_start + BATCH_CRC_COVERS_FROM : end - chunk_start]
        is_good = (
            header.magic == BATCH_MAGIC
            and header.last_offset_delta >= 0
            and header.base_offset >= next_offset
            and crc32c(covered) == header.crc
        )
        if not is_good:
            return
        yield header
        next_offset = header.last_offset + 1
        position = end


def record_timestamps(file: LogFile, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield offset and timestamp of each record of a batch."""
    for batch in walk(file.read(header.position, header.size_bytes)):
        for record in batch.records():
            yield record.offset, record.timestamp


def records_in(log: PartitionLog) -> Iterator[tuple[Buffer | None, Buffer | None]]:
    """Yield key and value of every record of a log."""
    for file, header in log.headers():
        if not header.is_control:
            for batch in walk(file.read(header.position, header.size_bytes)):
                for record in batch.records():
                    yield record.key, record.value


def build_batch(records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> tuple[memoryview, BatchHeader]:
    """Return a batch of the broker's own records, and its header.

    Args:
        records: keys and values.
        now_ms: their timestamp.
    """
    builder = BatchBuilder(_NO_LIMIT)
    for key, value in records:
        builder.append(now_ms, key, value)
    data = memoryview(bytearray(builder.seal()))  # a copy of its own, since the log stamps it
    return data, parse_header(data)
