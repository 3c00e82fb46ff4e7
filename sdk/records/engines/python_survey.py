"""Summarize the batches of a stored segment in Python, as the extension's `Survey` does."""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_MAGIC,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.java_integers import INT32_MAX, OFFSET_MAX

__all__ = ["Survey", "SurveyEntry"]

#: The last offset of a batch and its position; the highest timestamp so far, and the last offset of the first batch
#: with it.
SurveyEntry = tuple[int, int, int, int]


class Survey:
    """A summary of the batches of a segment, which are added in order from the first one.

    Args:
        base_offset: the lowest allowed offset; the distance from it to the highest offset must fit into an index
            entry's int32.
        interval_bytes: an entry is made for the next batch once more than this many bytes have followed the last entry.

    Attributes:
        base_offset: see above.
        next_offset: the offset after the last batch.
        size_bytes: the size of all batches.
        bytes_since_entry: the size of all batches since the last entry, including the batch of that entry.
        first_timestamp: the highest timestamp of the first batch; None before it.
        max_timestamp: the highest timestamp of all batches, -1 if there is none.
        max_timestamp_offset: the last offset of the first batch with that timestamp; the base offset if there is no
            batch.
        has_producers: whether any batch has an idempotent producer, or is a control batch.
        epochs: the leader epochs of the batches, each with the base offset of its first batch; an epoch that is not
            higher than all earlier ones is ignored.
    """

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = self.next_offset = self.max_timestamp_offset = base_offset
        self.size_bytes = self.bytes_since_entry = 0
        self.first_timestamp: int | None = None
        self.max_timestamp = NO_TIMESTAMP
        self.has_producers = False
        self.epochs: list[tuple[int, int]] = []
        self._interval_bytes = interval_bytes

    def add(self, buffer: Buffer, entries: list[SurveyEntry]) -> int:
        """Add whole batches, up to the first one that cannot follow.

        A batch can follow if it is of magic 2, has a correct checksum, and does not begin before `next_offset`.

        Args:
            buffer: the bytes after the batches added so far.
            entries: receives the index entries.

        Returns:
            The size of the added batches.
        """
        view = bytes_of(buffer)
        at = 0
        while (header := _whole_header(view, at)) is not None:
            base_offset, length, epoch, _, crc, attributes, delta, _, timestamp, producer_id, *_ = header
            size = length + BATCH_BATCH_LENGTH_COUNTS_FROM
            last_offset = base_offset + delta
            if base_offset < self.next_offset or delta < 0:
                break
            if last_offset > min(self.base_offset + INT32_MAX, OFFSET_MAX):
                break
            if crc32c(view[at + BATCH_CRC_COVERS_FROM : at + size]) != crc:
                break
            if self.first_timestamp is None:
                self.first_timestamp = timestamp
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
            if self.bytes_since_entry > self._interval_bytes:
                entries.append((last_offset, self.size_bytes, self.max_timestamp, self.max_timestamp_offset))
                self.bytes_since_entry = 0
            if producer_id != NO_PRODUCER_ID or attributes & BATCH_IS_CONTROL_MASK:
                self.has_producers = True
            if not self.epochs or epoch > self.epochs[-1][0]:
                self.epochs.append((epoch, base_offset))
            self.bytes_since_entry += size
            self.size_bytes += size
            self.next_offset = last_offset + 1
            at += size
        return at


def _whole_header(view: memoryview, at: int) -> tuple[int, ...] | None:
    """Return the header fields of the batch at a position, or None unless it is a whole batch of magic 2."""
    if len(view) - at < BATCH_HEADER_BYTES:
        return None
    fields = BATCH_HEADER.unpack_from(view, at)
    size = fields[1] + BATCH_BATCH_LENGTH_COUNTS_FROM
    return fields if fields[3] == BATCH_MAGIC and BATCH_HEADER_BYTES <= size <= len(view) - at else None
