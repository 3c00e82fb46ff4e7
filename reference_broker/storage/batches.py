"""Stored batches, each represented by its header and a region of a file.

Searching and recovery read only headers; the few operations that need records (lookup by time, internal topics) read
one batch at a time.

Source: record batch, magic 2, in `schemas/records/`; `FileLogInputStream` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.storage.disk.disk import File
from kafkawire.sdk.errors import DecodeError, PartialBatch
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
from kafkawire.sdk.records.java_integers import OFFSET_MAX

__all__ = [
    "BatchHeader",
    "DamagedSegment",
    "Window",
    "build_batch",
    "check_crc",
    "check_no_gap",
    "check_offsets",
    "check_stored",
    "headers",
    "parse_header",
    "record_timestamps",
]

#: Initial and maximum read-ahead. A disk call costs as much as copying a few KiB, and with large batches little of the
#: data that is read ahead goes unused.
_AHEAD_BYTES = 4 * 1024
_AHEAD_BYTES_MAX = 256 * 1024

#: The broker's own batches have no size limit.
_NO_LIMIT = 2**31 - 1

#: Coordinators do not number their batches, but a batch with a producer id must have a sequence number.
_COORDINATOR_SEQUENCE = 0


class DamagedSegment(DecodeError):
    """A batch that an operation has to read is damaged.

    Args:
        base_offset: base offset of the batch's segment.
        path: the file.
        offset: position of the batch in the file, in bytes.
        reason: what is wrong.

    Attributes:
        base_offset: see above.
    """

    def __init__(self, base_offset: int, path: str, offset: int, reason: str) -> None:
        super().__init__(f"segment {base_offset}: {path}", offset, reason)
        self.base_offset = base_offset


class BatchHeader(NamedTuple):
    """The header of a batch.

    Attributes:
        position: where the batch begins in the file.
        size_bytes: size of the batch, including its header.
        base_offset: offset of the first record.
        leader_epoch: epoch of the leader that wrote it.
        magic: version of the batch format.
        crc: checksum of everything after it, beginning with the attributes.
        attributes: bits; see the properties below.
        last_offset_delta: the last offset, relative to the base offset.
        base_timestamp: timestamp of the first record.
        max_timestamp: the highest timestamp.
        producer_id: id of an idempotent producer; otherwise -1.
        producer_epoch: epoch of an idempotent producer; otherwise -1.
        base_sequence: sequence number of an idempotent producer's first record; otherwise -1.
        records_count: number of records; after compaction, it can be lower than the number of offsets.
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
        """The offset of the last record, even if compaction removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The compression type of the records."""
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
        data: contains at least the header.
        at: where the batch begins in `data`.
        position: where the batch begins in the file.
    """
    base_offset, length, *rest = BATCH_HEADER.unpack_from(data, at)
    return BatchHeader(position, length + BATCH_BATCH_LENGTH_COUNTS_FROM, base_offset, *rest)


class Window:
    """A part of a file that is read ahead, so one disk call reads many small batches.

    Args:
        file: the file, which is read sequentially.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._data = b""
        self._start = 0

    def header(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`.

        Raises:
            PartialBatch: the file ends before the batch does.
            DecodeError: the position does not hold a batch with magic 2.
        """
        at = self._reach(position, BATCH_HEADER_BYTES)
        left = self._file.size_bytes - position
        if len(self._data) - at < BATCH_HEADER_BYTES:
            raise PartialBatch(position, left, None)
        header = parse_header(self._data, at, position)
        if header.magic != BATCH_MAGIC:
            raise DecodeError("magic", position, f"expected magic {BATCH_MAGIC}, got {header.magic}")
        if header.size_bytes < BATCH_HEADER_BYTES:
            reason = f"the batch has {header.size_bytes} bytes, but at least {BATCH_HEADER_BYTES} are needed"
            raise DecodeError("batch_length", position, reason)
        if header.size_bytes > left:
            raise PartialBatch(position, left, header.size_bytes)
        return header

    def _reach(self, position: int, size_bytes: int) -> int:
        """Read bytes into the window, up to the end of the file; return their position in the window."""
        at = position - self._start
        if at < 0 or at + size_bytes > len(self._data):
            is_near = 0 < at < 2 * len(self._data)
            ahead = min(2 * len(self._data), _AHEAD_BYTES_MAX) if is_near else _AHEAD_BYTES
            self._data, self._start, at = self._file.read(position, max(ahead, size_bytes)), position, 0
        return at


def headers(file: File, position: int, end_offset: int, lowest: int | None = None) -> Iterator[BatchHeader]:
    """Yield the headers of the batches in a file.

    Args:
        file: the file of a segment.
        position: the start of a batch.
        end_offset: the offset after the last batch.
        lowest: the lowest offset allowed; each batch must also come after the previous one; None skips these checks.

    Raises:
        DecodeError: a batch is damaged, or the file ends inside it.
    """
    end = file.size_bytes
    previous = None
    window = Window(file)
    while position < end:
        batch = window.header(position)
        if lowest is not None:
            check_offsets(batch, lowest, end_offset - 1)
            lowest = batch.last_offset + 1
        if previous is not None:
            check_no_gap(file, previous, batch.base_offset)
        yield batch
        previous = batch
        position += batch.size_bytes
    if previous is not None:
        check_no_gap(file, previous, end_offset)


def check_crc(header: BatchHeader, covered: Buffer) -> None:
    """Verify the checksum of a batch against its content.

    Args:
        header: the header of the batch.
        covered: the bytes that the checksum covers.

    Raises:
        DecodeError: the checksums differ.
    """
    computed = crc32c(covered)
    if computed != header.crc:
        raise DecodeError(
            "crc",
            header.position,
            f"the checksum is {header.crc:#010x}, but the content has {computed:#010x}",
        )


def check_no_gap(file: File, header: BatchHeader, next_offset: int) -> None:
    """Verify the checksum of a batch that is followed by a gap in the offsets.

    Compaction leaves such gaps. A damaged length that spans the following batches looks like one too, but then the
    checksum is wrong.

    Args:
        file: holds the batch.
        header: the header of the batch.
        next_offset: the base offset of the next batch, or the end offset of the log.

    Raises:
        DecodeError: the checksum is wrong.
    """
    if header.last_offset + 1 != next_offset:
        check_crc(header, memoryview(file.read(header.position, header.size_bytes))[BATCH_CRC_COVERS_FROM:])


def check_stored(file: File, header: BatchHeader, next_offset: int, highest_offset: int) -> None:
    """Check a batch read from a file.

    Args:
        file: holds the batch.
        header: header of the batch.
        next_offset: the lowest offset allowed for its first record.
        highest_offset: the highest offset allowed for its last record.

    Raises:
        DecodeError: the batch is damaged, or out of order.
    """
    check_crc(header, memoryview(file.read(header.position, header.size_bytes))[BATCH_CRC_COVERS_FROM:])
    check_offsets(header, next_offset, highest_offset)


def check_offsets(header: BatchHeader, next_offset: int, highest_offset: int) -> None:
    """Check the offsets of a batch read from a file, which its checksum does not cover.

    Args:
        header: header of the batch.
        next_offset: the lowest offset allowed for its first record.
        highest_offset: the highest offset allowed for its last record.

    Raises:
        DecodeError: the batch is out of order.
    """
    highest_offset = min(highest_offset, OFFSET_MAX)
    if header.base_offset < next_offset or header.last_offset_delta < 0 or header.last_offset > highest_offset:
        offsets = f"{header.base_offset} to {header.last_offset}"
        reason = f"expected offsets from {next_offset} to {highest_offset}, got {offsets}"
        raise DecodeError("base_offset", header.position, reason)


def record_timestamps(file: File, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield the offset and the timestamp of each record of a batch."""
    for batch in walk(file.read(header.position, header.size_bytes)):
        # One at a time: a lookup by time stops at the first record that is recent enough.
        for record in batch.views():
            yield record.offset, record.timestamp_ms


def build_batch(
    records: Sequence[tuple[bytes, bytes | None]], now_ms: int, producer: tuple[int, int] | None = None
) -> tuple[memoryview, BatchHeader]:
    """Return a batch of the broker's own records, and its header.

    Args:
        records: keys and values.
        now_ms: their timestamp.
        producer: the id and epoch of the producer whose transaction they belong to, or None.
    """
    if producer is None:
        builder = BatchBuilder(_NO_LIMIT)
    else:
        producer_id, epoch = producer
        builder = BatchBuilder(
            _NO_LIMIT,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=_COORDINATOR_SEQUENCE,
            is_transactional=True,
        )
    for key, value in records:
        builder.append(now_ms, key, value)
    data = memoryview(bytearray(builder.seal()))  # a writable copy, since the log stamps the batch
    return data, parse_header(data)
