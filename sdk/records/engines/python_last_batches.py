"""Choose the batches to rebuild a log's producer states from, in Python, as the extension's `last_batches` does."""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.crc import crc32c

__all__ = ["LastBatches", "last_batches"]

#: The positions of the chosen batches in order; the position where the scan stopped; the position of the last batch
#: before that, or None if there is none.
LastBatches = tuple[list[int], int, int | None]


def last_batches(buffer: Buffer, from_offset: int, end_offset: int, kept: int) -> LastBatches:
    """Choose every control batch and, between two of them, each producer's first transactional and last batches.

    The scan stops at the end of the buffer, at `end_offset`, at anything other than a whole batch of magic 2, at a
    batch with lower offsets than its predecessor, and at one that leaves a gap after a batch with a wrong checksum.

    Args:
        buffer: whole batches.
        from_offset: batches that begin before this offset are skipped.
        end_offset: the offset to stop at.
        kept: the number of most recent batches to choose for each producer, at least 1.

    Raises:
        ValueError: `kept` is below 1.
    """
    if kept < 1:
        raise ValueError(f"{kept} batches are to be kept, but at least 1 is needed")
    view = bytes_of(buffer)
    at, before, next_offset, crc = 0, None, 0, 0
    found: list[int] = []
    recent: dict[int, list[int]] = {}
    starts: dict[int, int] = {}
    while len(view) - at >= BATCH_HEADER_BYTES:
        base_offset, length, _, magic, own_crc, attributes, delta, _, _, producer_id, *_ = BATCH_HEADER.unpack_from(
            view, at
        )
        size = length + BATCH_BATCH_LENGTH_COUNTS_FROM
        if magic != BATCH_MAGIC or not BATCH_HEADER_BYTES <= size <= len(view) - at or base_offset >= end_offset:
            break
        if base_offset < next_offset or delta < 0:
            break
        has_gap = before is not None and base_offset != next_offset
        if has_gap and before is not None and crc32c(view[before + BATCH_CRC_COVERS_FROM : at]) != crc:
            break
        before, next_offset, crc = at, base_offset + delta + 1, own_crc
        at += size
        if base_offset < from_offset:
            continue
        if attributes & BATCH_IS_CONTROL_MASK:
            found += [*_chosen(recent, starts), before]
            recent, starts = {}, {}
        elif producer_id >= 0:
            last = recent.setdefault(producer_id, [])
            last.append(before)
            del last[:-kept]
            if attributes & BATCH_IS_TRANSACTIONAL_MASK:
                starts.setdefault(producer_id, before)
    return found + _chosen(recent, starts), at, before


def _chosen(recent: dict[int, list[int]], starts: dict[int, int]) -> list[int]:
    return sorted({*starts.values(), *(at for last in recent.values() for at in last)})
