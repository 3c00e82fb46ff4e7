"""How far partitions reach: their end offsets, and up to where all transactions are decided.

An end is looked for in the last segment alone, from the last entry of its index on. Transactions are followed from
where somebody began, by headers; what was seen once is not looked at again.

Source: `UnifiedLog.logEndOffset`, `lastStableOffset` in Apache Kafka.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.records.stored import Stored, read_stored
from kafkawire.sdk.spark.order import InOrder
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import batch_headers
from kafkawire.sdk.spark.segments.plan import index_cuts
from kafkawire.sdk.spark.segments.reading import offset_at
from kafkawire.sdk.spark.segments.storage import SegmentFiles

__all__ = ["End", "PartitionEnds", "start_position"]


class End(NamedTuple):
    """Where a partition ends.

    Attributes:
        offset: after its last record.
        position: after its last batch, in bytes of the last segment.
    """

    offset: int
    position: int


class _Followed:
    """The transactions of a partition, as far as they were followed.

    Attributes:
        base_offset: of the segment that comes next.
        position: in it.
        open: the first offset of each producer's transaction that has not ended.
    """

    def __init__(self, base_offset: int, position: int) -> None:
        self.base_offset = base_offset
        self.position = position
        self.open: dict[int, int] = {}


class PartitionEnds:
    """The ends of partitions, which may grow.

    Args:
        files: where they are.
    """

    def __init__(self, files: SegmentFiles) -> None:
        self._files = files
        self._known: dict[str, tuple[tuple[int, int | None], End]] = {}
        self._followed: dict[TopicPartition, _Followed] = {}

    def of(self, segment: FoundSegment) -> End:
        """Return where a partition ends.

        Args:
            segment: its last one.

        Raises:
            OSError: it cannot be read.
        """
        version = segment.size_bytes, segment.modified_ns
        known = self._known.get(segment.path)
        if known is None or known[0] != version or segment.modified_ns is None:
            known = self._known[segment.path] = version, self._end(segment)
        return known[1]

    def last_stable_offset(self, segments: Sequence[FoundSegment], start_offset: int, end_offset: int) -> int:
        """Return the offset up to which all transactions of a partition are decided.

        Args:
            segments: of the partition.
            start_offset: before it all were decided; the first call for a partition counts.
            end_offset: of the partition.

        Raises:
            OSError: a segment cannot be read.
        """
        folder = segments[0].folder
        followed = self._followed.get(folder)
        if followed is not None and followed.base_offset < segments[0].base_offset:
            # What was not looked at yet is gone, and what ended there would stay open: what is left says what is open.
            followed = self._followed[folder] = _Followed(segments[0].base_offset, 0)
        if followed is None:
            index = bisect_right(segments, start_offset, key=lambda each: each.base_offset) - 1
            segment = segments[max(index, 0)]
            followed = _Followed(segment.base_offset, start_position(self._files, segment, start_offset))
            self._followed[folder] = followed
        for segment in segments:
            if segment.base_offset >= followed.base_offset:
                self._follow(segment, followed, start_offset)
        return min(followed.open.values(), default=end_offset)

    def _follow(self, segment: FoundSegment, followed: _Followed, start_offset: int) -> None:
        if segment.base_offset > followed.base_offset:
            followed.base_offset, followed.position = segment.base_offset, 0
        try:
            file = self._files.open(segment)
        except FileNotFoundError:  # it was removed since it was listed; who reads it is told
            return
        with file:
            for header in batch_headers(file.leaps(), followed.position):
                followed.position = header.position + header.size_bytes
                if header.last_offset < start_offset or not header.is_transactional:
                    continue
                if header.is_control:
                    followed.open.pop(header.producer_id, None)
                else:
                    followed.open.setdefault(header.producer_id, header.base_offset)

    def _end(self, segment: FoundSegment) -> End:
        with self._files.open(segment) as file:
            start, lowest = 0, segment.base_offset
            for cut in reversed(index_cuts(segment, self._files.read(segment.sibling(".index")))):
                first = offset_at(file, cut)
                if first is not None:
                    start, lowest = cut.position, first
                    break
            end = End(segment.base_offset, start)
            for found in InOrder(read_stored(file.window(), start, is_growing=True), lowest, segment.end_offset):
                if isinstance(found, Stored):
                    end = End(found.batch.next_offset, found.position + found.batch.size_in_bytes)
            return end


def start_position(files: SegmentFiles, segment: FoundSegment, offset: int) -> int:
    """Return where to begin in a segment to meet an offset, by its index.

    Raises:
        OSError: a file cannot be read.
    """
    if offset <= segment.base_offset:
        return 0
    cuts = index_cuts(segment, files.read(segment.sibling(".index")))
    index = bisect_right(cuts, offset, key=lambda cut: cut.to)
    with files.open(segment) as file:
        if index and offset_at(file, cuts[index - 1]) is not None:
            return cuts[index - 1].position
    return 0
