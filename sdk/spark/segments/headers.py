"""Read a segment's batches by their headers alone, for callers that need no records.

The bytes between headers are not read, and checksums are not verified. Where the chain of headers is broken,
`read_stored` finds its continuation.

Source: `FileLogInputStream.FileChannelRecordBatch` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    MESSAGE_V0_HEADER,
    MESSAGE_V0_HEADER_BYTES,
    MESSAGE_V0_MIN_BYTES,
)
from kafkawire.sdk.records.sound_batches import SoundBatches, StoredBytes
from kafkawire.sdk.records.stored import BATCH_BYTES_MAX, Damage, read_stored
from kafkawire.sdk.records.walk import Batch, walk

__all__ = ["Header", "batch_at", "batch_headers", "header_at"]


class Header(NamedTuple):
    """The content of a batch header.

    Attributes:
        position: its position.
        size_bytes: the size of the batch.
        base_offset: the offset of its first record; for a wrapper of magic 0 or 1, that of the last.
        last_offset: the offset of its last record.
        producer_id: the producer id; -1 for none.
        is_transactional: whether it belongs to a transaction.
        is_control: whether it contains control records.
    """

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    producer_id: int = NO_PRODUCER_ID
    is_transactional: bool = False
    is_control: bool = False


def batch_headers(source: StoredBytes, start: int = 0) -> Iterator[Header]:
    """Yield the headers of complete batches, in order; damaged and partial batches are skipped.

    Args:
        source: a segment.
        start: where the first batch begins.

    Raises:
        OSError: the file cannot be read.
    """
    position = start
    search = SoundBatches(source)
    while position < source.end:
        header = header_at(source, position)
        if header is None:
            broken = next(read_stored(source, position, position + 1, is_growing=True, search=search), None)
            if broken is None:
                return
            position += broken.size_bytes if isinstance(broken, Damage) else broken.batch.size_in_bytes
            continue
        yield header
        position += header.size_bytes


def batch_at(source: StoredBytes, position: int) -> Batch | None:
    """Return the batch with a valid checksum at a position; None if there is none.

    Raises:
        OSError: the file cannot be read.
    """
    header = header_at(source, position)
    if header is None:
        return None
    try:
        return next(walk(source.at(position, header.size_bytes)), None)
    except DecodeError:
        return None


def header_at(source: StoredBytes, position: int) -> Header | None:
    """Return the header at a position; None if no complete batch can begin there.

    Raises:
        OSError: the file cannot be read.
    """
    head = source.at(position, BATCH_HEADER_BYTES)
    if len(head) < MESSAGE_V0_HEADER_BYTES:
        return None
    offset, length, _, magic, _ = MESSAGE_V0_HEADER.unpack_from(head)
    size = length + BATCH_BATCH_LENGTH_COUNTS_FROM
    if offset < 0 or not MESSAGE_V0_MIN_BYTES <= size <= min(source.end - position, BATCH_BYTES_MAX):
        return None
    if 0 <= magic < BATCH_MAGIC:
        return Header(position, size, offset, offset)
    if magic != BATCH_MAGIC or size < BATCH_HEADER_BYTES:
        return None
    _, _, _, _, _, attributes, delta, _, _, producer_id, *_ = BATCH_HEADER.unpack_from(head)
    if delta < 0:
        return None
    is_transactional, is_control = (
        bool(attributes & BATCH_IS_TRANSACTIONAL_MASK),
        bool(attributes & BATCH_IS_CONTROL_MASK),
    )
    return Header(position, size, offset, offset + delta, producer_id, is_transactional, is_control)
