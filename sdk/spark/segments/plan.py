"""What tasks read: parts of segments that begin and end with batches, as far as somebody wants what is in them.

A segment is cut where its `.index` says that a batch begins. What no one asked for is left out by the base offsets in
the names of the files, and inside a segment by `.index` and `.timeindex`. An index may be missing or damaged: by its
offsets parts are told apart, whatever they are; where a batch should begin, the reader looks whether one does.

Source: `OffsetIndex`, `TimeIndex` in Apache Kafka; `schemas/records/*_index_entry.yaml`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkawire.sdk.storage.index_entries import OFFSET_INDEX, TIME_INDEX, IndexFormat, parse_index

__all__ = ["SPLIT_BYTES", "Cut", "SegmentPart", "Wanted", "index_cuts", "plan", "tasks"]

#: Of a task, unless told otherwise: as Spark's `spark.sql.files.maxPartitionBytes`. A segment is decoded faster than
#: most files, and a task takes a tenth of a second to start.
SPLIT_BYTES: Final = 128 * 1024 * 1024

#: What opening a file costs, in bytes that could be read meanwhile: as Spark's `spark.sql.files.openCostInBytes`.
_OPEN_BYTES: Final = 4 * 1024 * 1024


class Wanted(NamedTuple):
    """What is asked for of a partition.

    Attributes:
        start_offset: the first one.
        end_offset: after the last one; None for all.
        start_timestamp_ms: records before are not wanted; None for all.
        end_timestamp_ms: records from then on are not wanted; None for all.
        is_continued: whether somebody else reads up to the start, and tells of damage that reaches beyond it.
    """

    start_offset: int = 0
    end_offset: int | None = None
    start_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    is_continued: bool = False

    @property
    def times_ms(self) -> tuple[int | None, int | None]:
        """The range of times."""
        return self.start_timestamp_ms, self.end_timestamp_ms


class Cut(NamedTuple):
    """Where a batch begins, as an index says.

    Brokers write the last offset of the batch into the entry; older ones the last of several batches that they appended
    together, or the first.

    Attributes:
        position: the place where the batch begins, in bytes.
        after: an offset before the batch's first one.
        to: an offset that is not before the batch's first one.
    """

    position: int
    after: int
    to: int


class SegmentPart(NamedTuple):
    """Bytes of a segment, for one task.

    Attributes:
        segment: the segment.
        cuts: the cuts of the whole segment: where its first part begins, those between, and where its last part ends.
        number: the number of the part, which lies between `cuts[number]` and the next one, see `reading.py`.
        wanted: the records that are wanted.
    """

    segment: FoundSegment
    cuts: tuple[Cut, ...]
    number: int
    wanted: Wanted

    @property
    def size_bytes(self) -> int:
        """How many bytes it has if the index is right."""
        return self.cuts[self.number + 1].position - self.cuts[self.number].position

    @property
    def offsets(self) -> tuple[int, int | None]:
        """Which last offsets its batches have: from the first of these on, and below the second; None for all."""
        cuts, number = self.cuts, self.number
        return (
            cuts[number].to + 1 if number else 0,
            cuts[number + 1].to + 1 if number + 2 < len(cuts) else None,
        )


def plan(
    segments: Iterable[FoundSegment],
    wanted_of: Callable[[FoundSegment], Wanted | None],
    read: Callable[[str], bytes],
    split_bytes: int = SPLIT_BYTES,
) -> Iterator[SegmentPart]:
    """Yield the parts that tasks read.

    Args:
        segments: the segments, by topic, partition and offset.
        wanted_of: what is asked for of a segment's partition; None for nothing.
        read: returns the content of a file beside a segment, nothing if there is none.
        split_bytes: at least so many for each part, but the last of a segment.
    """
    for segment in segments:
        wanted = wanted_of(segment)
        if wanted is None or not segment.size_bytes:
            continue
        wanted = wanted._replace(start_offset=max(wanted.start_offset, segment.log_start))
        if wanted.end_offset is not None and max(segment.base_offset, wanted.start_offset) >= wanted.end_offset:
            continue
        if segment.end_offset is not None and segment.end_offset <= wanted.start_offset:
            continue
        cuts = _cuts(segment, wanted, read, split_bytes)
        for number in range(len(cuts) - 1):
            yield SegmentPart(segment, cuts, number, wanted)


def tasks(parts: Iterable[SegmentPart], split_bytes: int = SPLIT_BYTES) -> Iterator[tuple[SegmentPart, ...]]:
    """Put small parts together, in order, into tasks of about `split_bytes`."""
    together: list[SegmentPart] = []
    size_bytes = 0
    for part in parts:
        cost = part.size_bytes + _OPEN_BYTES
        if together and size_bytes + cost > max(split_bytes, _OPEN_BYTES):
            yield tuple(together)
            together, size_bytes = [], 0
        together.append(part)
        size_bytes += cost
    if together:
        yield tuple(together)


def index_cuts(segment: FoundSegment, content: bytes) -> list[Cut]:
    """Return where batches begin, as the `.index` of a segment says; nothing if it is damaged.

    Args:
        segment: the one beside the index.
        content: the content of the index.
    """
    offsets, positions = _entries(content, OFFSET_INDEX)
    cuts: list[Cut] = []
    after = segment.base_offset - 1
    for offset, position in zip(offsets, positions, strict=True):
        if not 0 <= position < segment.size_bytes:  # the file is shorter than when the index was written
            break
        if position and (not cuts or position > cuts[-1].position):
            cuts.append(Cut(position, after, segment.base_offset + offset))
        after = segment.base_offset + offset
    return cuts


def _cuts(segment: FoundSegment, wanted: Wanted, read: Callable[[str], bytes], split_bytes: int) -> tuple[Cut, ...]:
    """Return where the parts of a segment begin, and where the last one ends; nothing if no record is wanted."""
    first = Cut(0, segment.base_offset - 1, segment.base_offset)
    last = Cut(segment.size_bytes, segment.base_offset - 1, segment.base_offset)
    is_whole = (
        wanted.start_offset <= segment.base_offset
        and wanted.start_timestamp_ms is None
        and (wanted.end_offset is None or (segment.end_offset is not None and segment.end_offset <= wanted.end_offset))
    )
    if segment.is_packed or (is_whole and segment.size_bytes <= split_bytes):
        return first, last
    found = index_cuts(segment, read(segment.sibling(INDEX_SUFFIX)))
    start_offset = wanted.start_offset
    if wanted.start_timestamp_ms is not None:
        start_offset = max(start_offset, _first_offset(segment, read, wanted.start_timestamp_ms))
    # An entry names an offset that is not before the batch at its position; what is before that batch is older.
    index = bisect_right(found, start_offset, key=lambda cut: cut.to)
    if index:
        first = found[index - 1]
    if wanted.end_offset is not None:
        index = bisect_right(found, wanted.end_offset - 1, key=lambda cut: cut.to)
        # The batch of the next entry may begin with an offset that is still wanted; the one after it cannot.
        if index + 1 < len(found):
            last = found[index + 1]
    if first.position >= last.position:
        return ()
    cuts = [first]
    for cut in found:
        if cut.position < last.position and cut.position - cuts[-1].position >= split_bytes:
            cuts.append(cut)
    return (*cuts, last)


def _first_offset(segment: FoundSegment, read: Callable[[str], bytes], timestamp_ms: int) -> int:
    """Return an offset before which every record of a segment is older than a time."""
    if segment.end_offset is None:
        # A broker that cuts off records of a partition cuts the index in its memory. What the file says of them stays
        # there until the segment is the last one no more.
        return segment.base_offset
    times, offsets = _entries(read(segment.sibling(TIME_INDEX_SUFFIX)), TIME_INDEX)
    index = bisect_right(times, timestamp_ms - 1)
    # What is not after the offset of an entry is not younger than its time.
    return segment.base_offset + (offsets[index - 1] + 1 if index else 0)


def _entries(content: bytes, index: IndexFormat) -> tuple[list[int], list[int]]:
    """Return the columns of an index; nothing of a damaged one, unless its end alone is missing."""
    keys, values, _ = parse_index(content, index, on_damage=lambda damage: None)
    return list(keys), list(values)
