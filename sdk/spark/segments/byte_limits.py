"""A limit on the number of bytes in a micro-batch.

The limit is distributed over the partitions in proportion to the bytes they have available. A partition with data gets
at least one batch, for the reason given in `offset_limits.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from kafkawire.sdk.spark.offset_limits import Ranges
from kafkawire.sdk.spark.segments.end_offsets import start_position
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import batch_headers
from kafkawire.sdk.spark.segments.plan import index_cuts
from kafkawire.sdk.spark.segments.reading import offset_at
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.storage.file_names import INDEX_SUFFIX

__all__ = ["limited_by_bytes"]


def limited_by_bytes(
    ranges: Ranges, segments: Mapping[str, Sequence[FoundSegment]], files: SegmentFiles, limit: int
) -> dict[str, int]:
    """Return where each partition ends in a micro-batch with a limited number of bytes.

    Args:
        ranges: the available offsets.
        segments: the segments of each partition; the last one's size is that of its content.
        files: the segment files.
        limit: the maximum number of segment bytes.

    Raises:
        OSError: a segment cannot be read.
    """
    starts = {key: _start(segments[key], files, start) for key, (start, _) in ranges.items()}
    sizes = {
        key: sum(each.size_bytes for each in segments[key][number:]) - position
        for key, (number, position) in starts.items()
    }
    total = sum(sizes.values())
    if total <= limit:
        return {key: end for key, (_, end) in ranges.items()}
    found = {}
    for key, (start, end) in ranges.items():
        share = max(limit * sizes[key] // total, 1)
        found[key] = min(end, _end(segments[key], files, starts[key], start, share) or end)
    return found


def _start(segments: Sequence[FoundSegment], files: SegmentFiles, offset: int) -> tuple[int, int]:
    """Return the index of the segment that contains an offset, and the position in it at which to begin."""
    number = max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0)
    return number, start_position(files, segments[number], offset)


def _end(
    segments: Sequence[FoundSegment], files: SegmentFiles, start: tuple[int, int], start_offset: int, share: int
) -> int | None:
    """Return an offset above `start_offset` that lies after a number of bytes; None if there are fewer bytes."""
    number, position = start
    for segment in segments[number:]:
        if segment.size_bytes - position <= share:
            share -= segment.size_bytes - position
            position = 0
            continue
        end_offset = _offset_behind(segment, files, position, share, start_offset)
        if end_offset is not None:
            return end_offset
        position = 0
    return None


def _offset_behind(
    segment: FoundSegment, files: SegmentFiles, position: int, share: int, start_offset: int
) -> int | None:
    """Return an offset above `start_offset` that lies after a number of bytes in a segment."""
    cuts = index_cuts(segment, files.read(segment.sibling(INDEX_SUFFIX)))
    end = position + share
    reached = max(start_offset, segment.base_offset)
    with files.open(segment) as file:
        index = bisect_right(cuts, end, key=lambda cut: cut.position)
        if index and cuts[index - 1].position > position:
            offset = offset_at(file, cuts[index - 1])
            if offset is not None:
                position, reached = cuts[index - 1].position, max(reached, offset)
        for header in batch_headers(file.leaps(), position):
            if header.position + header.size_bytes > end and reached > start_offset:
                return reached
            reached = max(reached, header.last_offset + 1)
    return reached if reached > start_offset else None
