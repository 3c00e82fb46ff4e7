"""The log of one partition: a sequence of segments, appended to at the end, read by offset.

Batches arrive validated (`validation.py`) and get their offsets and leader epoch here, in place; they are stored and
sent unchanged. Acknowledged records are in the page cache; syncing to disk follows `flush.messages` and `flush.ms`,
which are off by default as in Kafka.

Source: `UnifiedLog`, `LocalLog`, `LogLoader` in Apache Kafka.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafkawire.reference_broker.log.batches import BatchHeader, record_timestamps
from kafkawire.reference_broker.log.checkpoints import LEADER_EPOCHS, read_epochs, write_epochs
from kafkawire.reference_broker.log.config import LogConfig
from kafkawire.reference_broker.log.file import FileSlice, LogFile
from kafkawire.reference_broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, base_offset_of
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import stamp

__all__ = ["Appended", "PartitionLog", "Read", "TimestampAndOffset"]

logger = logging.getLogger("kafkawire.broker")

#: More than the `min_bytes` of any fetch, an int32.
_COMPLETES_ANY_FETCH_BYTES = 2**31


class Appended(NamedTuple):
    """The result of an append.

    Attributes:
        base_offset: of the first record.
        last_offset: of the last record.
        log_append_time_ms: the timestamp of all records, `NO_TIMESTAMP` if they keep the producer's.
        is_rolled: whether the batch began a new segment, so that the previous one is complete.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    is_rolled: bool


class Read(NamedTuple):
    """The result of a read.

    Attributes:
        records: batches from the one with the requested offset; the last may be cut. None at the end of the log.
        is_first_whole: whether `records` holds at least one whole batch.
    """

    records: FileSlice | None
    is_first_whole: bool


class TimestampAndOffset(NamedTuple):
    """The result of a lookup by time: the record's timestamp and offset, and its leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


class PartitionLog:
    """A partition on disk.

    Args:
        folder: `<topic>-<partition>`, created if it does not exist.
        config: see `LogConfig`.
        is_clean: whether the last shutdown was clean; otherwise every segment from `recovery_point` on is checked.
        log_start_offset: from the checkpoint; 0 for a new log.
        recovery_point: everything before this offset is on disk.

    Attributes:
        next_offset: the offset of the next record, Kafka's log end offset.
        log_start_offset: the first readable offset.
        leader_epoch: stamped into appended batches.
        truncated_bytes: bytes that recovery cut off.
    """

    def __init__(
        self,
        folder: Path,
        config: LogConfig,
        *,
        is_clean: bool = True,
        log_start_offset: int = 0,
        recovery_point: int = 0,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.config = config
        self.truncated_bytes = 0
        self._segments = self._open_segments(is_clean, log_start_offset, recovery_point)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.next_offset = self._segments[-1].next_offset
        self.log_start_offset = min(max(log_start_offset, self._base_offsets[0]), self.next_offset)
        self.recovery_point = min(max(recovery_point, self.log_start_offset), self.next_offset)
        # An epoch may begin at the end of the log, but not after it, where recovery may have cut.
        self._epochs = [entry for entry in read_epochs(folder / LEADER_EPOCHS) if entry[1] <= self.next_offset]
        self.leader_epoch = self._epochs[-1][0] if self._epochs else 0
        #: Called with the number of bytes after each append: the delayed fetches of this partition.
        self.watchers: set[Callable[[int], None]] = set()

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers may not read; with a single replica, the end of the log."""
        return self.next_offset

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def needs_sync(self) -> bool:
        """Whether `flush.messages` records were appended since the last sync."""
        return self.next_offset - self.recovery_point >= self.config.flush_messages

    def _open_segments(self, is_clean: bool, log_start_offset: int, recovery_point: int) -> list[Segment]:
        found = sorted(base for path in self.folder.iterdir() if (base := base_offset_of(path)) is not None)
        self._remove_orphans(set(found))
        segments: list[Segment] = []
        for base_offset in found:
            if self.truncated_bytes:
                # Offsets must not have a gap: everything after the damaged batch is deleted.
                segment = Segment(self.folder, base_offset, self.config)
                logger.warning("%s: deleting segment %d, which follows damaged batches", self.folder, base_offset)
                self.truncated_bytes += segment.size_bytes
                segment.delete()
                continue
            segment = Segment(self.folder, base_offset, self.config)
            if not is_clean and not self._is_synced(base_offset, found, recovery_point):
                self.truncated_bytes += segment.recover()
            else:
                self.truncated_bytes += self._load(segment, is_last=base_offset == found[-1])
            segments.append(segment)
        return segments or [Segment(self.folder, log_start_offset, self.config)]

    def _load(self, segment: Segment, *, is_last: bool) -> int:
        """Take over a segment that was closed in order and return the bytes cut off: at the log's end damage is."""
        try:
            return segment.load()
        except DecodeError as error:
            if is_last:
                return segment.recover()
            logger.error("%s, segment %d: %s; fetches fail there", self.folder, segment.base_offset, error)
            return 0

    def _is_synced(self, base_offset: int, found: list[int], recovery_point: int) -> bool:
        following = found[bisect_right(found, base_offset) :]
        return bool(following) and following[0] <= recovery_point

    def _remove_orphans(self, base_offsets: set[int]) -> None:
        """Delete indexes whose segment is gone."""
        for path in self.folder.iterdir():
            is_index = path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
            if is_index and base_offset_of(path.with_suffix(LOG_SUFFIX)) not in base_offsets:
                path.unlink()

    # Writing.

    def append(self, data: bytearray | memoryview, batch: BatchHeader, now_ms: int) -> Appended:
        """Assign offsets to a batch and append it.

        Args:
            data: one validated batch in writable memory. Base offset and leader epoch are stamped into it, and the
                timestamp if the topic uses log append time.
            batch: its header.
            now_ms: the current time.

        Raises:
            BrokerError: KAFKA_STORAGE_ERROR, it could not be written; the log is unchanged.
        """
        base_offset = self.next_offset
        log_append_time_ms = NO_TIMESTAMP
        if self.config.is_log_append_time:
            log_append_time_ms = now_ms
            batch = batch._replace(max_timestamp=now_ms)
            stamp(data, base_offset, self.leader_epoch, log_append_time=now_ms)
        else:
            stamp(data, base_offset, self.leader_epoch)
        try:
            segment = self._segments[-1]
            if is_rolled := segment.is_full_for(batch):
                segment = self._roll()
            if not self._epochs or self._epochs[-1][0] < self.leader_epoch:
                self._epochs.append((self.leader_epoch, base_offset))
                write_epochs(self.folder / LEADER_EPOCHS, self._epochs)
            segment.append(data, batch, base_offset)
        except OSError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self.next_offset = segment.next_offset
        for watcher in tuple(self.watchers):
            watcher(batch.size_bytes)
        return Appended(base_offset, self.next_offset - 1, log_append_time_ms, is_rolled)

    def complete_delayed_fetches(self) -> None:
        """Complete all delayed fetches: no more data will be appended."""
        for watcher in tuple(self.watchers):
            watcher(_COMPLETES_ANY_FETCH_BYTES)

    def _roll(self) -> Segment:
        """Seal the last segment and begin a new one."""
        self._segments[-1].seal()
        segment = Segment(self.folder, self.next_offset, self.config)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        return segment

    def unsynced(self) -> tuple[int, list[Segment]]:
        """Return the offset that a sync now would reach, and the segments to sync, on any thread."""
        return self.next_offset, self._segments[self._segment_number(self.recovery_point) :]

    def synced(self, offset: int) -> None:
        """Note that everything before `offset` is on disk."""
        self.recovery_point = max(self.recovery_point, offset)

    def close(self) -> None:
        """Complete the indexes and sync everything."""
        self._segments[-1].seal()
        offset, segments = self.unsynced()
        for segment in segments:
            segment.sync()
        self.synced(offset)

    # Reading.

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> Read:
        """Return batches from `offset` on, as a region of a file.

        Args:
            offset: the first offset to read.
            max_bytes: upper bound of the region.
            at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.

        Raises:
            BrokerError: OFFSET_OUT_OF_RANGE; CORRUPT_MESSAGE, a batch is damaged.
        """
        if not self.log_start_offset <= offset <= self.next_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset}, expected {self.log_start_offset} to {self.next_offset}",
            )
        if offset == self.next_offset:
            return Read(None, is_first_whole=False)
        for segment in self._segments[self._segment_number(offset) :]:
            try:
                batch = segment.find(offset)
            except DecodeError as error:
                raise self._corrupt(segment, error) from error
            if batch is not None:
                size = max(max_bytes, batch.size_bytes if at_least_one else 0)
                size = min(size, segment.size_bytes - batch.position)
                return Read(FileSlice(segment.file, batch.position, size), size >= batch.size_bytes)
        return Read(None, is_first_whole=False)

    def headers(self) -> Iterator[tuple[LogFile, BatchHeader]]:
        """Yield the header of every batch, and the file that the batch is in."""
        for segment in self._segments:
            for header in segment.headers(0):
                yield segment.file, header

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the first record at or after `timestamp`; None if no record is that recent.

        Raises:
            BrokerError: CORRUPT_MESSAGE, a batch is damaged.
        """
        for segment in self._segments:
            try:
                batch = segment.find_time(timestamp)
                if batch is not None:
                    return self._record_at(segment, batch, timestamp)
            except DecodeError as error:
                raise self._corrupt(segment, error) from error
        return None

    def _corrupt(self, segment: Segment, error: DecodeError) -> BrokerError:
        logger.error("%s, segment %d: %s", self.folder, segment.base_offset, error)
        return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"segment {segment.base_offset}: {error}")

    def max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record that has the highest timestamp; None in an empty log."""
        segment = max(self._segments, key=lambda segment: segment.max_timestamp)
        if segment.max_timestamp == NO_TIMESTAMP:
            return None
        return self.offset_for_timestamp(segment.max_timestamp)

    def _record_at(self, segment: Segment, batch: BatchHeader, timestamp: int) -> TimestampAndOffset | None:
        for offset, record_timestamp in record_timestamps(segment.file, batch):
            if record_timestamp >= timestamp and offset >= self.log_start_offset:
                return TimestampAndOffset(record_timestamp, offset, batch.leader_epoch)
        return None

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which `offset` was, or will be, written."""
        number = bisect_right([start for _, start in self._epochs], offset) - 1
        return self._epochs[number][0] if number >= 0 else self.leader_epoch

    def _segment_number(self, offset: int) -> int:
        return max(bisect_right(self._base_offsets, offset) - 1, 0)
