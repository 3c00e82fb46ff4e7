"""End offsets and last stable offsets of partitions.

The search for the end covers only the last segment, starting from the last entry of its index. Transactions are
followed from the start of the query by reading headers. No batch is read twice, unless a broker has replaced it:
cleaning merges one or more segments into one, and a new leader truncates records that only its predecessor had.

Source: `UnifiedLog.logEndOffset`, `lastStableOffset` in Apache Kafka.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.sound_batches import StoredBytes
from kafkawire.sdk.records.stored import Stored, read_stored
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.isolation import ends_transaction
from kafkawire.sdk.spark.offset_order import InOrder
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import Header, batch_at, batch_headers, header_at
from kafkawire.sdk.spark.segments.plan import index_cuts
from kafkawire.sdk.spark.segments.reading import offset_at
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.storage.file_names import INDEX_SUFFIX

__all__ = ["End", "PartitionEnds", "start_position"]


class End(NamedTuple):
    """The end of a partition.

    Attributes:
        offset: the offset after its last record.
        position: the position after its last batch, in bytes of the last segment.
    """

    offset: int
    position: int


class _Followed:
    """A partition's transactions, followed up to a certain position.

    Args:
        segment: the segment in which to begin.
        position: the position in it, in bytes.
        start_offset: all transactions before it have been decided.

    Attributes:
        segment: the next segment to read, as it was when it was last read.
        position: the position in it, in bytes.
        start_offset: all transactions before it have been decided.
        last: the last batch read from that segment; None if there is none.
        open: the first offset of each producer's open transaction.
    """

    def __init__(self, segment: FoundSegment, position: int, start_offset: int) -> None:
        self.segment = segment
        self.position = position
        self.start_offset = start_offset
        self.last: Header | None = None
        self.open: dict[int, int] = {}


class PartitionEnds:
    """The ends of partitions that may grow.

    Args:
        files: the files of the partitions.
    """

    def __init__(self, files: SegmentFiles) -> None:
        self._files = files
        self._known: dict[str, tuple[tuple[int, int | None], End]] = {}
        self._followed: dict[TopicPartition, _Followed] = {}

    def of(self, segment: FoundSegment) -> End:
        """Return where a partition ends.

        Args:
            segment: the last segment of the partition.

        Raises:
            OSError: the segment cannot be read.
        """
        version = _version(segment)
        known = self._known.get(segment.path)
        if known is None or known[0] != version or segment.modified_ns is None:
            known = self._known[segment.path] = version, self._end(segment)
        return known[1]

    def last_stable_offset(self, segments: Sequence[FoundSegment], start_offset: int, end_offset: int) -> int:
        """Return the offset up to which all transactions in a partition have been decided.

        Args:
            segments: the segments of the partition.
            start_offset: all transactions before it have been decided; only the first call for a partition uses it.
            end_offset: the end of the partition.

        Raises:
            OSError: a segment cannot be read.
        """
        folder = segments[0].folder
        followed = self._followed.get(folder)
        if followed is None or not self._is_as_it_was(followed, segments):
            start = start_offset if followed is None else followed.start_offset
            index = bisect_right(segments, start, key=lambda each: each.base_offset) - 1
            segment = segments[max(index, 0)]
            followed = _Followed(segment, start_position(self._files, segment, start), start)
            self._followed[folder] = followed
        for segment in segments:
            if segment.base_offset >= followed.segment.base_offset:
                self._follow(segment, followed)
        return min(followed.open.values(), default=end_offset)

    def _is_as_it_was(self, followed: _Followed, segments: Sequence[FoundSegment]) -> bool:
        """Return whether the batches that were read still exist; if so, the known open transactions remain valid."""
        before, last = followed.segment, followed.last
        index = bisect_left(segments, before.base_offset, key=lambda each: each.base_offset)
        if index == len(segments) or segments[index].base_offset != before.base_offset:
            return False
        segment = segments[index]
        if last is None or _version(segment) == _version(before):
            return True
        try:
            with self._files.open(segment) as file:
                return header_at(file.leaps(), last.position) == last
        except FileNotFoundError:
            return False

    def _follow(self, segment: FoundSegment, followed: _Followed) -> None:
        before = followed.segment
        if segment.base_offset > before.base_offset:
            followed.position, followed.last = 0, None
        elif followed.last is not None and _version(segment) == _version(before):
            return
        followed.segment = segment
        try:
            file = self._files.open(segment)
        except FileNotFoundError:  # the segment was removed after it was listed; its reader reports that
            return
        with file:
            source = file.leaps()
            for header in batch_headers(source, followed.position):
                followed.position, followed.last = header.position + header.size_bytes, header
                if header.last_offset < followed.start_offset or not header.is_transactional:
                    continue
                if not header.is_control:
                    followed.open.setdefault(header.producer_id, header.base_offset)
                elif _may_end(source, header):
                    followed.open.pop(header.producer_id, None)

    def _end(self, segment: FoundSegment) -> End:
        with self._files.open(segment) as file:
            start, lowest = 0, segment.base_offset
            for cut in reversed(index_cuts(segment, self._files.read(segment.sibling(INDEX_SUFFIX)))):
                first = offset_at(file, cut)
                if first is not None:
                    start, lowest = cut.position, first
                    break
            end = End(segment.base_offset, start)
            for found in InOrder(read_stored(file.window(), start, is_growing=True), lowest, segment.end_offset):
                if isinstance(found, Stored):
                    end = End(found.batch.next_offset, found.position + found.batch.size_in_bytes)
            return end


def _version(segment: FoundSegment) -> tuple[int, int | None]:
    """Return a value that changes whenever a file does, if the file system supports that."""
    return segment.size_bytes, segment.modified_ns


def _may_end(source: StoredBytes, header: Header) -> bool:
    """Return whether a control batch may end a transaction; True if it is damaged, which its reader will report."""
    batch = batch_at(source, header.position)
    try:
        return batch is None or ends_transaction(batch)
    except DecodeError:
        return True


def start_position(files: SegmentFiles, segment: FoundSegment, offset: int) -> int:
    """Return the position at which to begin the search for an offset in a segment, according to its index.

    Raises:
        OSError: a file cannot be read.
    """
    if offset <= segment.base_offset:
        return 0
    cuts = index_cuts(segment, files.read(segment.sibling(INDEX_SUFFIX)))
    index = bisect_right(cuts, offset, key=lambda cut: cut.to)
    with files.open(segment) as file:
        if index and offset_at(file, cuts[index - 1]) is not None:
            return cuts[index - 1].position
    return 0
