"""What tasks read: parts of segments that begin and end with batches, as far as somebody wants what is in them.

A segment is cut where its `.index` says that a batch begins. What no one asked for is left out by the base offsets in
the names of the files, and inside a segment by `.index` and `.timeindex`. An index may be missing, or damaged: then the
segment is read as a whole.

Source: `OffsetIndex`, `TimeIndex` in Apache Kafka; `schemas/records/*_index_entry.yaml`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.record_formats import OFFSET_INDEX_ENTRY_HEADER, TIME_INDEX_ENTRY_HEADER
from kafkawire.sdk.records.index_columns import index_columns
from kafkawire.sdk.spark.segments.files import FoundSegment

__all__ = ["SPLIT_BYTES", "SegmentPart", "Wanted", "plan"]

#: Of a task, unless told otherwise: as Spark's `spark.sql.files.maxPartitionBytes`. A segment is decoded faster than
#: most files, and a task takes a tenth of a second to start.
SPLIT_BYTES: Final = 128 * 1024 * 1024

_OFFSET_KEY_BYTES, _TIME_KEY_BYTES = 4, 8


class Wanted(NamedTuple):
    """What is asked for of a partition.

    Attributes:
        start_offset: the first one.
        end_offset: after the last one; None for all.
        start_timestamp_ms: records before are not wanted; None for all.
        end_timestamp_ms: records from then on are not wanted; None for all.
    """

    start_offset: int = 0
    end_offset: int | None = None
    start_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None


class SegmentPart(NamedTuple):
    """Bytes of a segment, for one task.

    Attributes:
        segment: it.
        start: where they begin, in bytes.
        end: where they end; a batch that begins before is read as a whole.
        is_last: whether the file ends there.
        wanted: of the records in them.
    """

    segment: FoundSegment
    start: int
    end: int
    is_last: bool
    wanted: Wanted


def plan(
    segments: Iterable[FoundSegment],
    wanted_of: Callable[[FoundSegment], Wanted | None],
    read: Callable[[str], bytes],
    split_bytes: int = SPLIT_BYTES,
) -> Iterator[SegmentPart]:
    """Yield the parts that tasks read.

    Args:
        segments: by topic, partition and offset.
        wanted_of: what is asked for of a segment's partition; None for nothing.
        read: returns the content of a file beside a segment, nothing if there is none.
        split_bytes: at least so many for each part, but the last of a segment.
    """
    for segment in segments:
        wanted = wanted_of(segment)
        if wanted is None or not segment.size_bytes:
            continue
        if wanted.end_offset is not None and segment.base_offset >= wanted.end_offset:
            continue
        if segment.end_offset is not None and segment.end_offset <= wanted.start_offset:
            continue
        yield from _parts(segment, wanted, read, split_bytes)


def _parts(
    segment: FoundSegment, wanted: Wanted, read: Callable[[str], bytes], split_bytes: int
) -> Iterator[SegmentPart]:
    offsets, positions = _entries(read(segment.sibling(".index")), _OFFSET_KEY_BYTES)
    while positions and positions[-1] >= segment.size_bytes:  # the file is shorter than when the index was written
        offsets.pop()
        positions.pop()
    start, end = 0, segment.size_bytes
    first_offset = wanted.start_offset - segment.base_offset
    if wanted.start_timestamp_ms is not None:
        times, at = _entries(read(segment.sibling(".timeindex")), _TIME_KEY_BYTES)
        index = bisect_right(times, wanted.start_timestamp_ms - 1)
        if index:  # what is not after this offset is older
            first_offset = max(first_offset, at[index - 1] + 1)
    if positions:
        # An entry names an offset in the batch that begins at its position; the entry before is not after it.
        index = bisect_right(offsets, first_offset)
        if index:
            start = positions[index - 1]
        if wanted.end_offset is not None:
            index = bisect_right(offsets, wanted.end_offset - segment.base_offset - 1)
            # The batch of the next entry may begin with an offset that is still wanted; the one after it cannot.
            if index + 1 < len(positions):
                end = positions[index + 1]
    cut = start
    for position in positions:
        if start < position < end and position - cut >= split_bytes:
            yield SegmentPart(segment, cut, position, False, wanted)
            cut = position
    if cut < end:
        yield SegmentPart(segment, cut, end, end == segment.size_bytes, wanted)


def _entries(content: bytes, key_bytes: int) -> tuple[list[int], list[int]]:
    """Return the columns of an index; nothing of a damaged one, and nothing of the room behind its entries."""
    entry = OFFSET_INDEX_ENTRY_HEADER if key_bytes == _OFFSET_KEY_BYTES else TIME_INDEX_ENTRY_HEADER
    content = content[: len(content) // entry.size * entry.size]
    zero = bytes(entry.size)
    while content.endswith(zero):
        # An active segment's index has room for further entries; the first entry may be zeros, too, and says nothing.
        kept = len(content.rstrip(b"\0"))
        content = content[: -(-kept // entry.size) * entry.size]
    found = index_columns(content, key_bytes)
    return ([], []) if found is None else (list(found[0]), list(found[1]))
