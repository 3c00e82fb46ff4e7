"""An immutable list of a log's segments, which lets a reader continue undisturbed by a roll.

Source: `LogSegments`, `LocalLog.read`, `UnifiedLog.fetchOffsetByTimestamp` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.storage.batches import BatchHeader, DamagedSegment, record_timestamps
from kafkawire.reference_broker.storage.disk.disk import File, FileSlice
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.stored_batches import producer_batches
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

__all__ = ["Prepare", "Read", "Segments", "TimestampAndOffset", "in_place"]

logger = logging.getLogger("kafkawire.broker")


class Read(NamedTuple):
    """The result of a read.

    Attributes:
        records: batches, starting with the one that contains the requested offset; the last may be incomplete. None at
            the end of the log.
        is_first_whole: whether `records` holds at least one whole batch.
        aborted: if requested, the aborted transactions that may have records there.
    """

    records: FileSlice | None
    is_first_whole: bool
    aborted: Sequence[AbortedTransaction] | None = None


class TimestampAndOffset(NamedTuple):
    """The result of a lookup by time: the record's timestamp, offset and leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


#: Called with a segment before it is searched; raises an error if the search has to wait.
Prepare = Callable[[Segment], None]


def in_place(segment: Segment) -> None:
    """Prepare a segment synchronously."""


class Segments:
    """Segments in order of base offset.

    Args:
        segments: the segments, of which there must be at least one.
    """

    __slots__ = ("base_offsets", "_segments", "last")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = tuple(segments)
        self.base_offsets = [segment.base_offset for segment in segments]
        self.last = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        """The first segment."""
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        """The total size of all batches."""
        size_bytes = 0
        for segment in self._segments:
            with contextlib.suppress(FileNotFoundError):  # a truncation may have removed it
                size_bytes += segment.size_bytes
        return size_bytes

    @property
    def stored_to(self) -> int:
        """The offset before which all segments and their indexes are durable."""
        offset = self.last.next_offset
        for segment in reversed(self._segments):
            if segment.is_stored:
                break
            offset = segment.base_offset
        return offset

    def rolled(self, segment: Segment) -> Segments:
        """Return these segments with another one appended."""
        return Segments((*self._segments, segment))

    def first_of(self, count: int) -> tuple[Segment, ...]:
        """Return the first segments."""
        return self._segments[:count]

    def without_first(self, count: int) -> tuple[tuple[Segment, ...], Segments]:
        """Return the first segments and the rest, of which there must be at least one."""
        return self._segments[:count], Segments(self._segments[count:])

    def replaced(self, old: Collection[Segment], new: Segment) -> Segments:
        """Return these segments with several successive segments replaced by one."""
        at = next(number for number, segment in enumerate(self._segments) if segment in old)
        return Segments((*self._segments[:at], new, *self._segments[at + len(old) :]))

    def since(self, offset: int) -> tuple[Segment, ...]:
        """Return the segment that contains an offset, and the segments after it."""
        return self._segments[max(bisect_right(self.base_offsets, offset) - 1, 0) :]

    def recent(self, count: int, size_bytes: int) -> Segment:
        """Return the first of the last segments: between two and `count` of them, and otherwise up to a total size."""
        first, left = self.last, size_bytes
        for number, segment in enumerate(reversed(self._segments[-count:])):
            left -= segment.size_bytes
            if number > 1 and left < 0:
                break
            first = segment
        return first

    def read(
        self,
        offset: int,
        max_bytes: int,
        up_to: int,
        *,
        at_least_one: bool,
        with_aborted: bool = False,
        prepare: Prepare = in_place,
    ) -> Read:
        """Return the batches starting at `offset`, as a region of a file.

        Args:
            offset: the first offset to read.
            max_bytes: upper bound of the region.
            up_to: the offset to stop at: the start of a batch, or the end of the log.
            at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
            with_aborted: whether to look for aborted transactions.
            prepare: see `Prepare`.

        Raises:
            DamagedSegment: a batch is damaged.
            OSError: the disk failed.
        """
        for segment in self.since(offset):
            prepare(segment)
            batch = segment.place_of(offset)
            if batch is None:
                continue
            if batch.base_offset >= up_to:
                break
            end = segment.size_bytes
            if up_to < segment.next_offset and (bound := segment.place_of(up_to)) is not None:
                end = bound.position
            size = max(max_bytes, batch.size_bytes if at_least_one else 0)
            size = min(size, end - batch.position)
            aborted = self._aborted(segment, offset, batch.position + size) if with_aborted else None
            return Read(FileSlice(segment.file, batch.position, size), size >= batch.size_bytes, aborted)
        return Read(None, is_first_whole=False, aborted=() if with_aborted else None)

    def _aborted(self, segment: Segment, offset: int, end_position: int) -> list[AbortedTransaction]:
        """Return the aborted transactions between an offset and a position in its segment, in marker order.

        If the position is not in the index, the next entry is used; extra, later transactions do not harm clients.
        """
        later = self.since(segment.base_offset)
        upper = segment.offset_from(end_position)
        if upper is None:
            upper = later[1].base_offset if len(later) > 1 else segment.next_offset
        found: list[AbortedTransaction] = []
        for each in later:
            entries, is_all = each.transactions.collect(offset, upper)
            found += entries
            if is_all:
                break
        return found

    def headers(self) -> Iterator[tuple[File, BatchHeader]]:
        """Yield the header of every batch, and the file that contains it."""
        for segment in self._segments:
            for header in segment.headers(0):
                yield segment.file, header

    def has_markers(self, from_offset: int, end_offset: int) -> bool:
        """Return whether there is a control batch between two offsets, or may be because of damage.

        Raises:
            OSError: the disk failed.
        """
        try:
            for segment in self.since(from_offset):
                if segment.base_offset >= end_offset or (first := segment.find(from_offset)) is None:
                    continue
                for header in segment.headers(first.position):
                    if header.base_offset >= end_offset:
                        break
                    if header.is_control:
                        return True
        except DecodeError:
            return True
        return False

    def producer_batches(self, from_offset: int, end_offset: int) -> Iterator[tuple[File, BatchHeader]]:
        """Yield the headers of the batches that determine the state of producers, between two offsets.

        Batches that follow a damaged one in the same segment are skipped.
        """
        for segment in self.since(from_offset):
            if segment.base_offset >= end_offset:
                break
            if not segment.has_producers:
                continue
            try:
                base_offset, next_offset = segment.base_offset, segment.next_offset
                for header in producer_batches(segment.file, base_offset, from_offset, end_offset, next_offset):
                    yield segment.file, header
            except DecodeError as error:
                logger.error("%s: %s; its producers may be unknown", segment.where, error)

    def offset_for_timestamp(
        self, timestamp: int, start_offset: int, *, prepare: Prepare = in_place, prepare_times: Prepare = in_place
    ) -> TimestampAndOffset | None:
        """Return the first record from `start_offset` on whose timestamp is at least `timestamp`, or None.

        Args:
            timestamp: milliseconds since the epoch.
            start_offset: the first readable offset.
            prepare: see `Prepare`.
            prepare_times: like `prepare`, but called before a segment's highest timestamp is read.

        Raises:
            DamagedSegment: a batch is damaged.
            OSError: the disk failed.
        """
        for segment in self.since(start_offset):
            prepare_times(segment)
            with contextlib.suppress(DecodeError):  # batches before the damage may be recent enough
                if segment.highest_timestamp() < timestamp:
                    continue
            prepare(segment)
            for batch in segment.from_time(timestamp):
                if found := _record_at(segment, batch, timestamp, start_offset):
                    return found
        return None

    def max_timestamp(self, prepare_times: Prepare = in_place) -> int:
        """Return the highest timestamp; `NO_TIMESTAMP` if there is none.

        Args:
            prepare_times: see `offset_for_timestamp`.

        Raises:
            DamagedSegment: a segment without a time index is damaged.
            OSError: the disk failed.
        """
        highest = NO_TIMESTAMP
        for segment in self._segments:
            prepare_times(segment)
            highest = max(highest, segment.highest_timestamp())
        return highest


def _record_at(segment: Segment, batch: BatchHeader, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
    """Return the first record of a batch that is recent enough and readable."""
    try:
        for offset, record_timestamp in record_timestamps(segment.file, batch):
            if record_timestamp >= timestamp and offset >= start_offset:
                return TimestampAndOffset(record_timestamp, offset, batch.leader_epoch)
    except DecodeError as error:
        raise DamagedSegment(segment.base_offset, "batch", batch.position, str(error)) from None
    return None
