"""The log of one partition: a sequence of segments, appended to at the end.

Batches arrive checked (`validation.py`) and get their offsets and leader epoch here, in place; they are stored and sent
unchanged. An append is one write to the page cache. All producers that wait for a sync share the next one, and one is
in flight at a time. New segment files are made in the background. After any failed write or sync, the log is offline,
and every request gets that error; opening a file is retried if the process had too many open.

A log knows its end, and the part that can be acknowledged by the state of this disk. Its owner sets the high watermark,
up to which all replicas have the records (`commit_to`), and is notified of relevant changes.

Source: `UnifiedLog`, `LocalLog` in Apache Kafka.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kafkawire.reference_broker.config.topic_configs import NEVER_MS, LogConfig
from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.disk.disk import File, is_short_of_descriptors
from kafkawire.reference_broker.storage.log.durability import Durability
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs, load_epochs
from kafkawire.reference_broker.storage.log.file_work import FileWork
from kafkawire.reference_broker.storage.log.reading import LogReader
from kafkawire.reference_broker.storage.log.recovery import PartitionCheckpoints, open_segments
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots, load_producers
from kafkawire.reference_broker.storage.producers.producers import (
    BATCHES_KEPT,
    CompletedTransaction,
    Marker,
    Producers,
    Verification,
)
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Read, Segments, TimestampAndOffset
from kafkawire.reference_broker.storage.segments.stored_batches import epoch_starts
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import call
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import place, stamp

__all__ = ["Appended", "Done", "LogOwner", "PartitionLog"]

T = TypeVar("T")

logger = logging.getLogger("kafkawire.broker")

#: Size of the log, beyond the last two segments, that is searched for batches that a producer may resend after a crash.
_RECALLED_BYTES = 64 * 1024 * 1024


#: Delay before retrying after a lack of file descriptors.
_RETRY_MS = 1_000


class Appended(NamedTuple):
    """The result of an append.

    Attributes:
        base_offset: offset of the first record.
        last_offset: offset of the last record.
        log_append_time_ms: the timestamp of all records, `NO_TIMESTAMP` if they keep the producer's.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int


#: Called once with the outcome of an append.
Done = Callable[[Appended | BrokerError], None]


class _Append(NamedTuple):
    """An append that waits for a new segment.

    Attributes:
        batch: its header.
        now_ms: when it was requested.
        done: see `append`.
        make: performs it.
    """

    batch: BatchHeader
    now_ms: int
    done: Done
    make: Callable[[], None]


class LogOwner(Protocol):
    """Decides how much of a log is committed, from the notifications below."""

    def transaction_begun(self, first_offset: int) -> None:
        """Record the first batch of a transaction; called before `appended` for that batch."""

    def appended(self, end_offset: int, size_bytes: int) -> None:
        """Record an appended batch."""

    def moved(self) -> None:
        """Decide again: the log has a new end, or more of it can be acknowledged."""

    def trimmed(self) -> None:
        """Record that the log begins at a later offset."""

    def prepared(self) -> None:
        """Record that more segments can be searched now."""

    def ended(self, error: BrokerError) -> None:
        """Record that the log has ended."""


def _nobody() -> None:
    """Stands for no owner: all records on the log's own disk are committed then."""


class PartitionLog:
    """A partition on disk.

    Args:
        services: disk, background, timers.
        folder: `<topic>-<partition>`; it must exist.
        config: see `LogConfig`.
        is_clean: whether the last shutdown was clean; otherwise every segment from `recovery_point` on is checked.
        log_start_offset: from the checkpoint; 0 for a new log.
        recovery_point: everything before this offset is on disk, None if unknown.
        last_epoch: see `load_epochs`.
        problem: the reason if its folder cannot be used; the log is then offline, and its files are not used.

    Attributes:
        folder: see above.
        config: see above.
        segments: replaced when they change.
        epochs: the leader epochs by offset.
        producers: see `Producers`.
        snapshots: see `Snapshots`.
        next_offset: the offset of the next record, Kafka's log end offset.
        log_start_offset: the first readable offset.
        high_watermark: the first offset that consumers may not read; the owner moves it with `commit_to`.
        error: the error that prevents reading and appending, None while the log is online.
        on_sealed: called when the recovery point has passed a complete segment, so that a checkpoint is useful.
        truncated_bytes: bytes that recovery cut off.
    """

    def __init__(
        self,
        services: LogServices,
        folder: str,
        config: LogConfig,
        *,
        is_clean: bool = True,
        log_start_offset: int = 0,
        recovery_point: int | None = 0,
        last_epoch: int = 0,
        problem: OSError | None = None,
    ) -> None:
        self.folder = folder
        self.config = config
        self.segments = Segments([Segment(services.disk, folder, log_start_offset, config)])
        self.epochs = LeaderEpochs([(0, 0)])
        self.producers = Producers(log_start_offset)
        self.snapshots = Snapshots(services.disk, folder)
        self.next_offset = self.log_start_offset = self.high_watermark = log_start_offset
        self.error: BrokerError | None = None
        self._owner: Callable[[], LogOwner | None] = _nobody
        self.on_sealed: Callable[[], None] | None = None
        self.truncated_bytes = 0
        self._services = services
        self._files = FileWork(services)
        self._durability = Durability(services, folder, self.snapshots)
        # Not a cycle: the files of a log are closed as soon as it is released.
        this = weakref.proxy(self)
        self._reader = LogReader(services, folder, self._files.do, lambda: this._prepared())
        self._is_syncing = False
        self._wants_sync = False
        self._flush_timer: Timer | None = None
        #: Appends that wait for a new segment, in order. A connection has one request at a time, also with acks=0.
        self._waiting: deque[_Append] = deque()
        self._is_rolling = False
        self._when_rolled: list[Callable[[], None]] = []
        try:
            if problem is not None:
                raise problem
            self._open(is_clean, log_start_offset, recovery_point, last_epoch)
        except OSError as error:
            self.fail(error)
        except Exception as error:
            # A defect, which must not keep the broker from serving other partitions.
            logger.exception("%s: the log cannot be opened", services.disk.describe(folder))
            self.fail(error)

    def _open(self, is_clean: bool, log_start_offset: int, known_point: int | None, last_epoch: int) -> None:
        disk = self._services.disk
        recovery_point = known_point or 0
        checkpoints = PartitionCheckpoints(
            log_start_offset, recovery_point, known_point is None and self.config.is_compacted
        )
        segments, self.truncated_bytes = open_segments(disk, self.folder, self.config, checkpoints, is_clean=is_clean)
        self.segments = Segments(segments)
        durability = self._durability
        durability.unstored = [segment for segment in segments if segment.is_sealed and not segment.is_stored]
        self.next_offset = segments[-1].next_offset
        # The folder of a log that was closed empty was never synced.
        durability.has_new_names = not self.next_offset or not all(segment.is_stored for segment in segments)
        self.log_start_offset = min(max(log_start_offset, segments[0].base_offset), self.next_offset)
        durability.recovery_point = min(max(recovery_point, self.log_start_offset), self.next_offset)
        # Records before it are not checked again, so not even an index may be missing there.
        durability.stored_to = durability.recovery_point
        self.epochs = load_epochs(
            disk,
            self.folder,
            self.next_offset,
            (epoch_starts(each.file, each.base_offset, each.headers) for each in segments if each.size_bytes),
            last_epoch=last_epoch,
            is_cut=not is_clean or self.truncated_bytes > 0 or self.next_offset < recovery_point,
        )
        self._load_producers(is_clean=is_clean)
        # Records left by a crash become readable once they are durable. Gaps after the checkpoint would look like
        # damage at the next startup once it is rewritten.
        if self._unsynced_records >= self.config.flush_messages or checkpoints.may_have_gaps:
            self._sync_in_place()
        self.commit_to(self.next_offset)
        self._release()

    def _release(self) -> None:
        for segment in self.segments:
            segment.release()

    def _load_producers(self, *, is_clean: bool) -> None:
        """Load the state of producers, and find the aborted transactions that an index lacks."""
        incomplete = [segment for segment in self.segments if not segment.transactions.is_complete]

        def aborted(ended: CompletedTransaction) -> None:
            segment = self.segments.since(ended.last_offset)[0]
            if segment in incomplete:
                segment.transactions.append(ended)

        self.producers = load_producers(
            self.snapshots,
            self.segments.base_offsets,
            self.next_offset,
            self.segments.producer_batches,
            is_clean=is_clean,
            aborted=aborted,
            aborted_from=incomplete[0].base_offset if incomplete else None,
            recalled_from=None if is_clean else self.segments.recent(BATCHES_KEPT + 1, _RECALLED_BYTES).base_offset,
        )
        for segment in incomplete:
            segment.transactions.is_complete = True
            if segment.is_stored:
                segment.transactions.store()

    @property
    def leader_epoch(self) -> int:
        """The epoch that is stamped into appended batches."""
        return self.epochs.current

    @property
    def last_stable_offset(self) -> int:
        """The first offset that consumers of committed records may not read."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def readable_to(self, *, is_committed: bool) -> int:
        """Return the first offset that a consumer may not read, by isolation level."""
        return self.last_stable_offset if is_committed else self.high_watermark

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is on disk."""
        return self._durability.recovery_point

    @property
    def stored_to(self) -> int:
        """See `Durability`."""
        return self._durability.stored_to

    @property
    def acknowledged_to(self) -> int:
        """The offset up to which this disk allows acknowledgement: the end, or the part synced by `flush.messages`."""
        return self.next_offset if self._unsynced_records < self.config.flush_messages else self.recovery_point

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return self.segments.size_bytes if self.error is None else 0

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self.error is not None and self.error.code == ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def _unsynced_records(self) -> int:
        return self.next_offset - self._durability.recovery_point

    def configure(self, config: LogConfig) -> None:
        """Use another configuration from now on, also in the active segment."""
        self.config = config
        if self.error is not None:
            return
        self.segments.last.configure(config)
        if config.flush_ms < NEVER_MS:
            deadline_ms = self._services.clock() + config.flush_ms
            if self._flush_timer is not None and self._flush_timer.deadline_ms > deadline_ms:
                self._flush_timer.cancel()
                self._flush_timer = None
            self._flush_by(deadline_ms)
        self._moved()

    def own(self, owner: LogOwner) -> None:
        """Set the owner, which decides how much of this log is committed.

        Args:
            owner: see `LogOwner`. The log only has a weak reference: the files of both are closed once both are
                released.
        """
        self._owner = weakref.ref(owner)

    # Its two ends.

    def commit_to(self, offset: int) -> list[int]:
        """Move the high watermark: all required replicas have the records before it.

        Args:
            offset: not after the end of the log; a lower offset has no effect.

        Returns:
            The first offsets of the transactions that no longer hold back the last stable offset.
        """
        self.high_watermark = max(self.high_watermark, offset)
        return self.producers.note_high_watermark(offset)

    def begin_at(self, offset: int) -> None:
        """Move the start of the log; earlier records are no longer readable.

        Args:
            offset: up to the high watermark; a lower offset has no effect.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.begin_at(offset)
            if (owner := self._owner()) is not None:
                owner.trimmed()

    def drop_first(self, count: int) -> tuple[Segment, ...]:
        """Begin the log with a later segment; return the earlier ones, whose files are no longer needed.

        Args:
            count: the number of removed segments, which are durable, and before the high watermark.
        """
        dropped, self.segments = self.segments.without_first(count)
        self.begin_at(self.segments.first.base_offset)
        return dropped

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
        up_to: int | None = None,
        is_committed: bool = False,
    ) -> Read:
        """Return batches from `offset` on, as a region of a file.

        Args:
            offset: the first offset to read.
            max_bytes: upper bound of the region.
            at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
            up_to: where to end, None for the high watermark, or the last stable offset.
            is_committed: whether to read to the last stable offset, and look for aborted transactions.

        Raises:
            NotPrepared: the index of a segment is being rebuilt; the owner is notified when it is ready.
            BrokerError: OFFSET_OUT_OF_RANGE; CORRUPT_MESSAGE, a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        if not self.log_start_offset <= offset <= self.next_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset}, expected {self.log_start_offset} to {self.next_offset}",
            )
        if up_to is None:
            up_to = self.readable_to(is_committed=is_committed)
        if offset >= up_to:
            return Read(None, is_first_whole=False, aborted=() if is_committed else None)
        return self._reader.read(
            self.segments, offset, max_bytes, up_to, at_least_one=at_least_one, with_aborted=is_committed
        )

    def headers(self) -> Iterator[tuple[File, BatchHeader]]:
        """Yield the header of every batch, and the file with the batch.

        Raises:
            DecodeError: a batch is damaged.
            OSError: the disk failed.
        """
        return self.segments.headers()

    def offset_for_timestamp(self, timestamp: int, *, is_committed: bool = False) -> TimestampAndOffset | None:
        """Return the first record at or after `timestamp`; None if no such record exists or is readable.

        Args:
            timestamp: milliseconds since the epoch.
            is_committed: see `readable_to`.

        Raises:
            NotPrepared: see `when_prepared`.
            BrokerError: CORRUPT_MESSAGE, a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        found = self._reader.offset_for_timestamp(self.segments, timestamp, self.log_start_offset)
        return found if found is not None and found.offset < self.readable_to(is_committed=is_committed) else None

    def max_timestamp(self, *, is_committed: bool = False) -> TimestampAndOffset | None:
        """Return the first record that has the highest timestamp; None in an empty log, or if the record is unreadable.

        Raises:
            NotPrepared, BrokerError: as `offset_for_timestamp`.
        """
        self._check()
        highest = self._reader.max_timestamp(self.segments)
        return None if highest == NO_TIMESTAMP else self.offset_for_timestamp(highest, is_committed=is_committed)

    def when_prepared(self, read: Callable[[], T], done: Callable[[T | BrokerError], None]) -> None:
        """Read as soon as its prerequisites are ready; see `LogReader.when_prepared`."""
        self._reader.when_prepared(read, done)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which `offset` was, or will be, written."""
        return self.epochs.at(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the highest leader epoch up to `epoch`, and its end offset; see `LeaderEpochs.end_of`.

        Raises:
            BrokerError: `error`.
        """
        self._check()
        return self.epochs.end_of(epoch, self.next_offset)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error.again()

    def _prepared(self) -> None:
        if (owner := self._owner()) is not None:
            owner.prepared()

    # Writing.

    def append(
        self,
        data: bytearray | memoryview,
        batch: BatchHeader,
        now_ms: int,
        done: Done,
        *,
        is_client: bool = True,
        verification: Verification | None = None,
    ) -> None:
        """Assign offsets to a batch and append it.

        Args:
            data: one checked batch in writable memory. Base offset and leader epoch are stamped into it, and the
                timestamp if the topic uses log append time.
            batch: its header.
            now_ms: the current time.
            done: called once, when the batch is in the log, usually before `append` returns, or with the error; the
                batch can be acknowledged once the high watermark has passed it.
            is_client: whether a client produced it; coordinators write without sequence numbers.
            verification: permission to begin a transaction here, see `Producers.begin_verification`.
        """
        if self.config.is_log_append_time:
            batch = batch._replace(max_timestamp=now_ms)
        if self._takes(batch, now_ms):
            self._append(data, batch, now_ms, done, is_client, verification)
        else:
            self._wait(batch, now_ms, done, lambda: self._append(data, batch, now_ms, done, is_client, verification))

    def append_marker(self, marker: Marker, transaction_version: int, now_ms: int, done: Done) -> None:
        """Append the marker that ends a transaction; without an open one, the marker is appended as well.

        Args:
            marker: the coordinator's marker.
            transaction_version: the coordinator's, see `Producers.check_marker`.
            now_ms: the current time.
            done: see `append`; the error may be INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        data, batch = build_marker(marker, now_ms)
        if self._takes(batch, now_ms):
            self._append_marker(data, batch, now_ms, done, marker, transaction_version)
            return
        self._wait(
            batch, now_ms, done, lambda: self._append_marker(data, batch, now_ms, done, marker, transaction_version)
        )

    def _takes(self, batch: BatchHeader, now_ms: int) -> bool:
        """Return whether a batch can be appended now."""
        if self.error is not None or self._is_rolling or self._waiting:
            return False
        return not self.segments.last.is_full_for(batch, now_ms)

    def _wait(self, batch: BatchHeader, now_ms: int, done: Done, make: Callable[[], None]) -> None:
        """Perform an append once there is a segment for it."""
        if self.error is not None:
            done(self.error)
            return
        self._waiting.append(_Append(batch, now_ms, done, make))
        if not self._is_rolling and len(self._waiting) == 1:
            self._roll()

    def _append(
        self,
        data: bytearray | memoryview,
        batch: BatchHeader,
        now_ms: int,
        done: Done,
        is_client: bool,
        verification: Verification | None,
    ) -> None:
        try:
            found = self.producers.check(batch, is_client=is_client, verification=verification)
        except BrokerError as error:
            done(error)
            return
        if found is not None:  # a duplicate gets the offsets of the first
            done(Appended(found.first_offset, found.last_offset, found.timestamp))
        else:
            self._write(data, batch, now_ms, done, None)

    def _append_marker(
        self, data: memoryview, batch: BatchHeader, now_ms: int, done: Done, marker: Marker, transaction_version: int
    ) -> None:
        try:
            self.producers.check_marker(marker, transaction_version)
        except BrokerError as error:
            done(error)
        else:
            self._write(data, batch, now_ms, done, marker)

    def _write(
        self, data: bytearray | memoryview, batch: BatchHeader, now_ms: int, done: Done, marker: Marker | None
    ) -> None:
        """Append a checked batch of records, or a marker."""
        base_offset, log_append_time_ms = self.next_offset, NO_TIMESTAMP
        if self.config.is_log_append_time:
            log_append_time_ms = now_ms
            stamp(data, base_offset, self.leader_epoch, log_append_time=log_append_time_ms)
        else:
            place(data, base_offset, self.leader_epoch)
        segment = self.segments.last
        try:
            segment.append(data, batch, base_offset, now_ms)
        except OSError as error:
            if is_short_of_descriptors(error):  # the file was not open yet
                self._tell_shortage(error)
            else:
                self.fail(error)
            done(self.error or storage_error(error))
            return
        self.next_offset = segment.next_offset
        owner = self._owner()
        if marker is None:
            self.producers.note(batch, base_offset)
            if owner is not None and self.producers.has_transaction_from(base_offset):
                owner.transaction_begun(base_offset)
        else:
            ended = self.producers.note_marker(marker, base_offset, batch.max_timestamp)
            if ended is not None and ended.is_aborted:
                segment.transactions.append(ended)
        if owner is not None:
            owner.appended(self.next_offset, batch.size_bytes)
        try:
            done(Appended(base_offset, self.next_offset - 1, log_append_time_ms))
        finally:  # whatever the callback does, the batch is in the log
            self._moved()
            if self.config.flush_ms < NEVER_MS:
                self._flush_by(now_ms + self.config.flush_ms)

    def _roll(self) -> None:
        """Begin a new segment, whose file is created in the background; appends wait for it."""
        self._is_rolling = True
        created: list[Segment] = []
        base_offset = self.next_offset
        write_snapshot = self.snapshots.prepared(self.producers)

        def create() -> None:
            write_snapshot()
            created.append(Segment.create(self._services.disk, self.folder, base_offset, self.config))

        def done(error: Exception | None) -> None:
            self._is_rolling = False
            if self.error is not None:
                return
            if error is not None:
                if is_short_of_descriptors(error):
                    # No state has changed: the next append, or a callback waiting for a new segment, retries.
                    self._tell_shortage(error)
                    self._refuse_waiting(storage_error(error))
                else:
                    self.fail(error)
                return
            sealed = self.segments.last
            sealed.seal()
            # Includes a segment without appends since startup, which the next sync stores again.
            sealed.is_stored = False
            self._durability.unstored.append(sealed)
            created[0].configure(self.config)  # which may differ from that when its file was created
            self.segments = self.segments.rolled(created[0])
            self._sync()
            self._append_waiting()
            self._call_when_rolled()

        self._files.do(create, done)

    def _append_waiting(self) -> None:
        while self._waiting and not self._is_rolling and self.error is None:
            first = self._waiting[0]
            if self.segments.last.is_full_for(first.batch, first.now_ms):
                self._roll()
            else:
                call(self._waiting.popleft().make)

    # Upkeep.

    def roll(self, done: Callable[[], None]) -> None:
        """Begin a new segment although the last one has room; it must not be empty.

        Args:
            done: called when there is a new segment, when the log has ended, or when none could be created for now.
        """
        self._when_rolled.append(done)
        if self.error is not None:
            self._call_when_rolled()
        elif not self._is_rolling:
            self._roll()

    def _call_when_rolled(self) -> None:
        waiting, self._when_rolled = self._when_rolled, []
        for done in waiting:
            call(done)

    # Syncing.

    def _moved(self) -> None:
        """Notify the owner of a change, and sync the log if `flush.messages` requires it."""
        if (owner := self._owner()) is not None:
            owner.moved()
        else:
            self.commit_to(self.acknowledged_to)
        if self._unsynced_records >= self.config.flush_messages:
            self._sync()

    def _flush_by(self, deadline_ms: int) -> None:
        """Sync by a deadline, unless a sync is already planned."""
        if self._flush_timer is None and self._unsynced_records:
            self._flush_timer = self._services.timers.at(deadline_ms, self._flush)

    def _flush(self, now_ms: int) -> None:
        self._flush_timer = None
        self._sync()

    def _sync(self) -> None:
        """Make everything in the log durable; if a sync is running, another one follows it."""
        if self._is_syncing:
            self._wants_sync = True
        if self._is_syncing or self.error is not None:
            return
        self._is_syncing = True
        work, note = self._durability.sync(self.segments, self.next_offset)

        def done(error: Exception | None) -> None:
            self._is_syncing = False
            wants_sync, self._wants_sync = self._wants_sync, False
            if self.error is not None:
                return
            if error is not None:
                if is_short_of_descriptors(error):
                    self._sync_later(error)
                else:
                    self.fail(error)
                return
            self._synced(note)
            self._moved()
            self._tell_stored()
            if wants_sync and (self._unsynced_records or self._durability.unstored):
                self._sync()

        self._files.do(work, done)

    def _sync_later(self, error: Exception) -> None:
        """Retry a sync that could not open a file after a while: no sync has failed, so no data is lost."""
        self._tell_shortage(error)
        self._durability.take_back()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._flush_timer = self._services.timers.at(self._services.clock() + _RETRY_MS, self._flush)

    def _tell_shortage(self, error: Exception) -> None:
        where = self._services.disk.describe(self.folder)
        text = "%s: retrying later because of too few file descriptors (ulimit -n): %s"
        self._services.lines.error(("descriptors", where), self._services.clock(), text, where, error)

    def _sync_in_place(self) -> None:
        work, note = self._durability.sync(self.segments, self.next_offset)
        work()
        self._synced(note)

    def _synced(self, note: Callable[[Segments], bool]) -> None:
        """Record a successful sync."""
        if note(self.segments) and self.on_sealed is not None:
            call(self.on_sealed)

    def store(self, segments: Sequence[Segment], done: Callable[[], None]) -> None:
        """Make complete segments durable with their indexes; only then can their files be removed.

        Args:
            segments: segments of this log.
            done: called when they are durable, or the log has ended.
        """
        self._durability.when_stored(segments, done)
        self._tell_stored()

    def _tell_stored(self) -> None:
        if self._durability.tell(has_ended=self.error is not None):
            self._sync()

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """See `FileWork.when_quiet`."""
        self._files.when_quiet(callback)

    # Ending.

    def fail(self, error: Exception) -> None:
        """Go offline: the disk no longer matches the state of this log."""
        logger.error("%s: the log is offline: %s", self._services.disk.describe(self.folder), error)
        self.end(storage_error(error))

    def end(self, error: BrokerError) -> None:
        """End the log: all waiting and later requests are answered with `error`."""
        if self.error is None:
            self.error = error
            if self._flush_timer is not None:
                self._flush_timer.cancel()
            self._refuse_waiting(error)
            if (owner := self._owner()) is not None:
                owner.ended(error)
            self._tell_stored()

    def close(self) -> None:
        """Complete the indexes and make everything durable; the log is not used afterwards."""
        if self.error is None:
            self._complete()
        self._release()  # others need the file descriptors

    def _complete(self) -> None:
        self.segments.last.seal()
        unstored = self._durability.unstored = [segment for segment in self.segments if not segment.is_stored]
        if not self.next_offset or not unstored:
            return  # no appends since startup
        try:
            self.snapshots.prepared(self.producers, is_last=True)()
            self._sync_in_place()
        except OSError as error:
            self.fail(error)

    def _refuse_waiting(self, error: BrokerError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for append in waiting:
            call(append.done, error)
        self._call_when_rolled()
