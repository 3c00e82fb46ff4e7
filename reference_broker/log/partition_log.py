"""The log of one partition: a sequence of segments, appended to at the end, read by offset.

Batches arrive checked (`validation.py`) and get their offsets and leader epoch here, in place; they are stored and sent
unchanged. An append is one write to the page cache; the high watermark follows at once, or after a sync if
`flush.messages` asks for one. Syncs and new segment files are made in the background, one sync at a time: all who wait
meanwhile share the next one. After any failed write or sync the log is offline, and says so to everybody.

Source: `UnifiedLog`, `LocalLog` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from kafkawire.reference_broker.disk.disk import File
from kafkawire.reference_broker.log.batches import BatchHeader
from kafkawire.reference_broker.log.config import NEVER_MS, LogConfig
from kafkawire.reference_broker.log.epochs import LeaderEpochs, load_epochs
from kafkawire.reference_broker.log.high_watermark import HighWatermark, Reached, Watcher
from kafkawire.reference_broker.log.producer_state import Snapshots, load_producers
from kafkawire.reference_broker.log.producers import Producers
from kafkawire.reference_broker.log.recovery import Places, open_segments
from kafkawire.reference_broker.log.segment import Segment
from kafkawire.reference_broker.log.segments import DamagedSegment, Read, Segments, TimestampAndOffset
from kafkawire.reference_broker.log.services import LogServices
from kafkawire.reference_broker.log.syncing import make_durable
from kafkawire.reference_broker.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import stamp

__all__ = ["Appended", "Done", "PartitionLog"]

logger = logging.getLogger("kafkawire.broker")

T = TypeVar("T")


class Appended(NamedTuple):
    """The result of an append.

    Attributes:
        base_offset: of the first record.
        last_offset: of the last record.
        log_append_time_ms: the timestamp of all records, `NO_TIMESTAMP` if they keep the producer's.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int


#: Called once with what became of an append.
Done = Callable[[Appended | BrokerError], None]

#: The arguments of an append that has not been made.
_Append = tuple[bytearray | memoryview, BatchHeader, int, Done]


class PartitionLog:
    """A partition on disk.

    Args:
        services: disk, background, timers.
        folder: `<topic>-<partition>`; it must exist.
        config: see `LogConfig`.
        is_clean: whether the last shutdown was clean; otherwise every segment from `recovery_point` on is checked.
        log_start_offset: from the checkpoint; 0 for a new log.
        recovery_point: everything before this offset is on disk.

    Attributes:
        config: see above.
        next_offset: the offset of the next record, Kafka's log end offset.
        log_start_offset: the first readable offset.
        recovery_point: see above.
        truncated_bytes: bytes that recovery cut off.
        error: why nothing can be read or appended, None while all is well.
        producers: see `Producers`.
        on_sealed: called when the recovery point has passed a complete segment, which is worth a checkpoint.
    """

    def __init__(
        self,
        services: LogServices,
        folder: str,
        config: LogConfig,
        *,
        is_clean: bool = True,
        log_start_offset: int = 0,
        recovery_point: int = 0,
    ) -> None:
        self.config = config
        self.error: BrokerError | None = None
        self.next_offset, self.log_start_offset, self.recovery_point = log_start_offset, log_start_offset, 0
        self.truncated_bytes = 0
        self._services = services
        self._folder = folder
        self.on_sealed: Callable[[], None] | None = None
        self._segments = Segments([Segment(services.disk, folder, log_start_offset, config)])
        #: Sealed segments whose indexes are not durable yet.
        self._unstored: list[Segment] = []
        self.producers, self._snapshots = Producers(log_start_offset), Snapshots(services.disk, folder)
        self._epochs = LeaderEpochs([(0, 0)])
        self._high_watermark = HighWatermark(log_start_offset)
        #: Appends that wait for a new segment, in order. A connection has one request at a time, of bounded size.
        self._waiting: deque[_Append] = deque()
        self._is_rolling = False
        self._is_syncing = False
        self._wants_sync = False
        #: Whether names may not be durable that were there when the log was opened; a roll syncs its own.
        self._has_new_names = True
        self._flush_timer: Timer | None = None
        try:
            self._open(is_clean, log_start_offset, recovery_point)
        except OSError as error:
            self.fail(error)

    def _open(self, is_clean: bool, log_start_offset: int, recovery_point: int) -> None:
        disk = self._services.disk
        places = Places(log_start_offset, recovery_point)
        segments, self.truncated_bytes = open_segments(disk, self._folder, self.config, places, is_clean=is_clean)
        self._segments = Segments(segments)
        self._unstored = [segment for segment in segments if segment.is_sealed and not segment.is_stored]
        self._has_new_names = not all(segment.is_stored for segment in segments)
        self.next_offset = segments[-1].next_offset
        self.log_start_offset = min(max(log_start_offset, segments[0].base_offset), self.next_offset)
        self.recovery_point = min(max(recovery_point, self.log_start_offset), self.next_offset)
        self._epochs = load_epochs(disk, self._folder, self.next_offset, self._segments.headers())
        self.producers = load_producers(
            self._snapshots,
            self._segments.base_offsets,
            self.next_offset,
            self._segments.headers_from,
            is_clean=is_clean,
        )
        if self._unsynced_records >= self.config.flush_messages:
            # What a crash has left becomes readable once it is durable.
            self._sync_in_place()
        self._high_watermark = HighWatermark(self.next_offset)

    @property
    def leader_epoch(self) -> int:
        """The epoch that is stamped into appended batches."""
        return self._epochs.current

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers may not read."""
        return self._high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset that consumers of committed records may not read."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return self._segments.size_bytes if self.error is None else 0

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self.error is not None and self.error.code == ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def _unsynced_records(self) -> int:
        return self.next_offset - self.recovery_point

    # Waiting.

    def when_reached(self, offset: int, callback: Reached) -> None:
        """Call back once the high watermark is at `offset` or after it, or never will be."""
        self._high_watermark.when_reached(offset, callback)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with the number of bytes whenever more can be read, until `unwatch`."""
        self._high_watermark.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self._high_watermark.unwatch(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return self._high_watermark.is_watched

    # Writing.

    def append(self, data: bytearray | memoryview, batch: BatchHeader, now_ms: int, done: Done) -> None:
        """Assign offsets to a batch and append it.

        Args:
            data: one checked batch in writable memory. Base offset and leader epoch are stamped into it, and the
                timestamp if the topic uses log append time.
            batch: its header.
            now_ms: the current time.
            done: called once: when the batch is in the log, usually before `append` returns, or with the error; it
                may be acknowledged when the high watermark has passed it.
        """
        if self.error is not None:
            done(self.error)
            return
        if self._is_rolling or self._waiting:
            self._waiting.append((data, batch, now_ms, done))
        elif self._segments.last.is_full_for(batch):
            self._waiting.append((data, batch, now_ms, done))
            self._roll()
        else:
            self._append(data, batch, now_ms, done)

    def _append(self, data: bytearray | memoryview, batch: BatchHeader, now_ms: int, done: Done) -> None:
        try:
            found = self.producers.check(batch)
        except BrokerError as error:
            done(error)
            return
        if found is not None:  # what its producer has sent again keeps its place
            done(Appended(found.first_offset, found.last_offset, found.timestamp))
            return
        base_offset, log_append_time_ms = self.next_offset, NO_TIMESTAMP
        if self.config.is_log_append_time:
            log_append_time_ms = now_ms
            batch = batch._replace(max_timestamp=log_append_time_ms)
            stamp(data, base_offset, self.leader_epoch, log_append_time=log_append_time_ms)
        else:
            stamp(data, base_offset, self.leader_epoch)
        segment = self._segments.last
        try:
            segment.append(data, batch, base_offset)
        except OSError as error:
            self.fail(error)
            done(self.error or self._storage_error(error))
            return
        self.next_offset = segment.next_offset
        self.producers.note(batch, base_offset)
        self._high_watermark.appended(self.next_offset, batch.size_bytes)
        done(Appended(base_offset, self.next_offset - 1, log_append_time_ms))
        self._advance()
        if self.config.flush_ms < NEVER_MS and self._flush_timer is None and self._unsynced_records:
            self._flush_timer = self._services.timers.at(now_ms + self.config.flush_ms, self._flush)

    def _advance(self) -> None:
        """Move the high watermark: to the end, or to what is durable while `flush.messages` asks for a sync."""
        if self._unsynced_records < self.config.flush_messages:
            self._high_watermark.advance(self.next_offset)
        else:
            self._high_watermark.advance(self.recovery_point)
            self._sync()
        self.producers.note_high_watermark(self.high_watermark)

    def _roll(self) -> None:
        """Begin a new segment, whose file is created in the background; appends wait for it."""
        self._is_rolling = True
        created: list[Segment] = []
        base_offset = self.next_offset
        write_snapshot = self._snapshots.prepared(self.producers)

        def create() -> None:
            write_snapshot()
            created.append(Segment.create(self._services.disk, self._folder, base_offset, self.config))

        def done(error: Exception | None) -> None:
            self._is_rolling = False
            if self.error is not None:
                return
            if error is not None:
                self.fail(error)
                return
            self._segments.last.seal()
            self._unstored.append(self._segments.last)
            self._segments = self._segments.rolled(created[0])
            self._sync()
            self._append_waiting()

        self._services.background(create, done)

    def _append_waiting(self) -> None:
        while self._waiting and not self._is_rolling and self.error is None:
            if self._segments.last.is_full_for(self._waiting[0][1]):
                self._roll()
            else:
                self._append(*self._waiting.popleft())

    # Syncing.

    def _flush(self, now_ms: int) -> None:
        self._flush_timer = None
        self._sync()

    def _sync(self) -> None:
        """Make everything in the log durable; if a sync is in flight, another one follows it."""
        if self._is_syncing:
            self._wants_sync = True
        if self._is_syncing or self.error is not None:
            return
        self._is_syncing = True
        work, note = self._sync_work()

        def done(error: Exception | None) -> None:
            self._is_syncing = False
            wants_sync, self._wants_sync = self._wants_sync, False
            if self.error is not None:
                return
            if error is not None:
                self.fail(error)
                return
            note()
            self._advance()
            if wants_sync and (self._unsynced_records or self._unstored):
                self._sync()

        self._services.background(work, done)

    def _sync_work(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return what makes the log as it is now durable, on any thread, and what takes note of it afterwards."""
        disk, folder, end_offset = self._services.disk, self._folder, self.next_offset
        sealed, self._unstored = self._unstored, []
        segments = [segment for segment in self._segments.since(self.recovery_point) if segment not in sealed]
        has_new_names = self._has_new_names or bool(sealed)
        self._has_new_names = False

        def work() -> None:
            make_durable(disk, folder, sealed, segments, with_names=has_new_names)

        def note() -> None:
            for segment in sealed:
                segment.stored()
            self.recovery_point = max(self.recovery_point, end_offset)
            if sealed and self.on_sealed is not None:
                self.on_sealed()

        return work, note

    def _sync_in_place(self) -> None:
        work, note = self._sync_work()
        work()
        note()

    # Ending.

    def close(self) -> None:
        """Complete the indexes and make everything durable; the log is not used afterwards."""
        self._segments.last.seal()
        self._unstored = [segment for segment in self._segments if not segment.is_stored]
        if self.error is not None or not self.next_offset or not (self._unstored or self._has_new_names):
            return  # it is offline, or nobody has appended since the start
        try:
            self._snapshots.prepared(self.producers, is_last=True)()
            self._has_new_names = True
            self._sync_in_place()
        except OSError as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Go offline: what the disk holds is no longer what this log believes."""
        logger.error("%s: the log is offline: %s", self._services.disk.describe(self._folder), error)
        self.end(self._storage_error(error))

    def _storage_error(self, error: Exception) -> BrokerError:
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def end(self, error: BrokerError) -> None:
        """End the log: everybody who waits, and who comes, is answered with `error`."""
        if self.error is None:
            self.error = error
            if self._flush_timer is not None:
                self._flush_timer.cancel()
            waiting, self._waiting = self._waiting, deque()
            for *_, done in waiting:
                done(error)
            self._high_watermark.fail(error)

    # Reading.

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, up_to: int | None = None) -> Read:
        """Return batches from `offset` on, as a region of a file.

        Args:
            offset: the first offset to read.
            max_bytes: upper bound of the region.
            at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
            up_to: where to end, None for the high watermark.

        Raises:
            BrokerError: OFFSET_OUT_OF_RANGE; CORRUPT_MESSAGE, a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        if not self.log_start_offset <= offset <= self.next_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset}, expected {self.log_start_offset} to {self.next_offset}",
            )
        up_to = self.high_watermark if up_to is None else up_to
        if offset >= up_to:
            return Read(None, is_first_whole=False)
        return self._reading(lambda: self._segments.read(offset, max_bytes, up_to, at_least_one=at_least_one))

    def headers(self) -> Iterator[tuple[File, BatchHeader]]:
        """Yield the header of every batch, and the file that the batch is in.

        Raises:
            DecodeError: a batch is damaged.
            OSError: the disk failed.
        """
        return self._segments.headers()

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the first record at or after `timestamp`; None if no record is that recent.

        Raises:
            BrokerError: CORRUPT_MESSAGE, a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        return self._reading(lambda: self._segments.offset_for_timestamp(timestamp, self.log_start_offset))

    def max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record that has the highest timestamp; None in an empty log.

        Raises:
            BrokerError: as `offset_for_timestamp`.
        """
        self._check()
        highest = self._reading(self._segments.max_timestamp)
        return None if highest == NO_TIMESTAMP else self.offset_for_timestamp(highest)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which `offset` was, or will be, written."""
        return self._epochs.at(offset)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error.again()

    def _reading(self, read: Callable[[], T]) -> T:
        """Read; what fails concerns this request alone, since nothing that was acknowledged is at stake."""
        try:
            return read()
        except DamagedSegment as error:
            logger.error("%s, %s", self._services.disk.describe(self._folder), error)
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except OSError as error:
            logger.error("%s cannot be read: %s", self._services.disk.describe(self._folder), error)
            raise self._storage_error(error) from error
