"""Plan the parts of segments for tasks to read: they begin and end at batch boundaries, and contain wanted records.

A segment is split where, according to its `.index`, a batch begins. Unwanted records are skipped using the base offsets
in file names and, inside a segment, `.index` and `.timeindex`. An index may be missing or damaged, because its offsets
merely separate the parts, whatever their values; the reader checks whether a batch really begins where it should.

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

#: Default amount of data per task, as in Spark's `spark.sql.files.maxPartitionBytes`. Decoding a segment is faster than
#: reading most files, and a task needs a tenth of a second to start.
SPLIT_BYTES: Final = 128 * 1024 * 1024

#: The cost of opening a file, as the number of bytes that could be read in that time, like Spark's
#: `spark.sql.files.openCostInBytes`.
_OPEN_BYTES: Final = 4 * 1024 * 1024


class Wanted(NamedTuple):
    """The wanted records of a partition.

    Attributes:
        start_offset: the first offset.
        end_offset: the offset after the last one; None for all.
        start_timestamp_ms: earlier records are not wanted; None for all.
        end_timestamp_ms: records from this time onward are not wanted; None for all.
        is_continued: whether another reader reads up to the start and reports damage that extends beyond it.
    """

    start_offset: int = 0
    end_offset: int | None = None
    start_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    is_continued: bool = False

    @property
    def times_ms(self) -> tuple[int | None, int | None]:
        """The range of timestamps."""
        return self.start_timestamp_ms, self.end_timestamp_ms


class Cut(NamedTuple):
    """The start of a batch according to an index.

    Brokers write the batch's last offset into the entry; if several batches were appended together, older brokers write
    the last offset of the last or the first of them.

    Attributes:
        position: the position of the batch, in bytes.
        after: an offset before the batch's first offset.
        to: an offset not before the batch's first offset.
    """

    position: int
    after: int
    to: int


class SegmentPart(NamedTuple):
    """The bytes of a segment for one task to read.

    Attributes:
        segment: the segment.
        cuts: the cuts in the whole segment: the start of its first part, those between parts, and the end of its last
            part.
        number: the number of the part, which is between `cuts[number]` and the next cut; see `reading.py`.
        wanted: the wanted records.
    """

    segment: FoundSegment
    cuts: tuple[Cut, ...]
    number: int
    wanted: Wanted

    @property
    def size_bytes(self) -> int:
        """Its size in bytes, if the index is right."""
        return self.cuts[self.number + 1].position - self.cuts[self.number].position

    @property
    def offsets(self) -> tuple[int, int | None]:
        """The range for the last offsets of its batches; the end is exclusive, None for no limit."""
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
        segments: the segments, sorted by topic, partition and offset.
        wanted_of: returns the wanted records of a segment's partition; None for none.
        read: returns the content of a file next to a segment; empty if there is none.
        split_bytes: the minimum size of each part, except the last part of a segment.
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
    """Combine small consecutive parts into tasks of about `split_bytes`."""
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
    """Return where batches begin according to the `.index` of a segment; empty if the index is damaged.

    Args:
        segment: the segment to which the index belongs.
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
    """Return where the parts of a segment begin, and where the last part ends; empty if no record is wanted."""
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
    # The offset in an entry is not before the batch at its position, and records before that batch have lower offsets.
    index = bisect_right(found, start_offset, key=lambda cut: cut.to)
    if index:
        first = found[index - 1]
    if wanted.end_offset is not None:
        index = bisect_right(found, wanted.end_offset - 1, key=lambda cut: cut.to)
        # The batch of the next entry may begin with an offset that is still wanted; the one after that cannot.
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
    """Return an offset before which every record of a segment is older than a given time."""
    if segment.end_offset is None:
        # When a broker truncates a partition, it truncates the index in memory. The file keeps outdated entries until
        # the segment is no longer the last one.
        return segment.base_offset
    times, offsets = _entries(read(segment.sibling(TIME_INDEX_SUFFIX)), TIME_INDEX)
    index = bisect_right(times, timestamp_ms - 1)
    # Records up to an entry's offset are not newer than the entry's time.
    return segment.base_offset + (offsets[index - 1] + 1 if index else 0)


def _entries(content: bytes, index: IndexFormat) -> tuple[list[int], list[int]]:
    """Return the columns of an index; empty if it is damaged, unless only its end is missing."""
    keys, values, _ = parse_index(content, index, on_damage=lambda damage: None)
    return list(keys), list(values)
