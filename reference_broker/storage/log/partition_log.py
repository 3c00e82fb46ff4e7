"""The log of one partition: a sequence of segments, appended to at the end.

Batches arrive already checked (`validation.py`) and get their offsets and leader epoch in place. An append is one write
to the page cache. All producers waiting for a sync share the next one; one is in flight at a time. New segment files
are created in the background. After a failed write or sync, the log is offline, and every request gets that error; if
the process had too many files open, opening a file is retried.

A log knows its end, and how much of it this disk allows to be acknowledged. Its owner sets the high watermark, up to
which all in-sync replicas have the records, and is notified of changes. A follower appends the leader's batches
unchanged, and truncates its log where it diverges from the leader's.

Source: `UnifiedLog`, `LocalLog` in Apache Kafka.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from kafkawire.reference_broker.config.topic_configs import NEVER_MS, LogConfig
from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.disk.disk import File, is_short_of_descriptors
from kafkawire.reference_broker.storage.log.appends import Appended, Done, LogOwner, WaitingAppend, nobody
from kafkawire.reference_broker.storage.log.durability import Durability
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs
from kafkawire.reference_broker.storage.log.fetched_batches import FetchedBatches, check_fetched
from kafkawire.reference_broker.storage.log.file_work import FileWork, Turns
from kafkawire.reference_broker.storage.log.opening import CheckpointedLog, TruncatedLog, open_log
from kafkawire.reference_broker.storage.log.reading import LogReader
from kafkawire.reference_broker.storage.log.syncs import Syncs
from kafkawire.reference_broker.storage.log.truncation import Truncation
from kafkawire.reference_broker.storage.log.truncations import Plan, Settled, Truncations
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots
from kafkawire.reference_broker.storage.producers.producers import Marker, Producers, Verification
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Read, Segments, TimestampAndOffset
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import place, stamp

__all__ = ["Appended", "Done", "LogOwner", "PartitionLog"]

T = TypeVar("T")

logger = logging.getLogger("kafkawire.broker")


class PartitionLog:
    """A partition on disk.

    Args:
        services: see `LogServices`.
        folder: `<topic>-<partition>`; it must exist.
        config: see `LogConfig`.
        is_clean, log_start_offset, recovery_point, last_epoch, high_watermark: see `CheckpointedLog`.
        problem: why the folder cannot be used; if given, the log is offline, and its files are left alone.

    Attributes:
        folder, config: see above.
        segments: its segments; the attribute is replaced when they change.
        epochs: the leader epochs and their start offsets.
        producers: see `Producers`.
        snapshots: see `Snapshots`.
        next_offset: the offset of the next record, called log end offset in Kafka.
        log_start_offset: the first readable offset.
        high_watermark: the first offset that consumers may not read; the owner moves it with `commit_to`.
        error: the error that prevents reading and appending, or None while the log is online.
        is_replicated: whether the log is one of several replicas.
        on_sealed: called when the recovery point has passed the end of a segment, which makes a checkpoint worthwhile.
        on_truncated: called with the log and its new end; calls back once no checkpoint exceeds that end.
        turns: see `Turns`.
        truncations: the number of truncations that have begun to change files.
        truncated_bytes: the number of bytes that recovery cut off.
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
        high_watermark: int | None = None,
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
        self.is_replicated = high_watermark is not None
        self._owner: Callable[[], LogOwner | None] = nobody
        self.on_sealed: Callable[[], None] | None = None
        self.on_truncated: Callable[[PartitionLog, int, Settled], None] | None = None
        self.turns = Turns()
        self.truncations = self.truncated_bytes = 0
        self._services = services
        self._files = FileWork(services)
        self._durability = Durability(services, folder, self.snapshots)
        # Avoids a reference cycle: the files of a log are closed as soon as it is released.
        this = weakref.proxy(self)
        self._reader = LogReader(services, folder, self._files.do, lambda: this._prepared())
        self._syncs = Syncs(services, self._files, self._durability)
        self._truncations = Truncations(services, self._files, self._reader)
        #: Appends waiting for a new segment, in order. Each connection handles one request at a time, even with acks=0.
        self._waiting: deque[WaitingAppend] = deque()
        #: The number of rolls and truncations in progress, for which appends wait.
        self._holds = 0
        self._when_rolled: list[Callable[[], None]] = []
        try:
            if problem is not None:
                raise problem
            self._open(CheckpointedLog(is_clean, log_start_offset, recovery_point, last_epoch, high_watermark))
        except OSError as error:
            self.fail(error)
        except Exception as error:
            # This is a defect, which must not keep the broker from serving other partitions.
            logger.exception("%s: the log cannot be opened", services.disk.describe(folder))
            self.fail(error)

    def _open(self, known: CheckpointedLog) -> None:
        opened = open_log(self._services.disk, self.folder, self.config, self.snapshots, known)
        segments, durability = opened.segments, self._durability
        self.segments, self.truncated_bytes = segments, opened.truncated_bytes
        durability.unstored = [segment for segment in segments if segment.is_sealed and not segment.is_stored]
        self.next_offset = segments.last.next_offset
        # If a log was empty when it was closed, its folder has never been synced.
        durability.has_new_names = not self.next_offset or not all(segment.is_stored for segment in segments)
        self.log_start_offset = opened.log_start_offset
        durability.recovery_point = durability.stored_to = opened.recovery_point
        self.epochs, self.producers = opened.epochs, opened.producers
        # Records that survived a crash become readable once they are durable. Gaps after the recovery point would look
        # like damage at the next startup once the checkpoint has been rewritten.
        if self._unsynced_records >= self.config.flush_messages or opened.may_have_gaps:
            self._syncs.sync_in_place(self)
        self.set_high_watermark(self.next_offset if known.high_watermark is None else known.high_watermark)
        self._holds = self._truncations.running = int(opened.is_truncated)
        self._syncs.is_paused = opened.is_truncated
        self._release()

    def _release(self) -> None:
        for segment in self.segments:
            segment.release()

    @property
    def leader_epoch(self) -> int:
        """The epoch stamped into appended batches."""
        return self.epochs.current

    @property
    def last_stable_offset(self) -> int:
        """The first offset that read-committed consumers may not read."""
        unstable, limit = self.producers.first_unstable_offset, self.high_watermark
        return limit if unstable is None else min(max(unstable, self.log_start_offset), limit)

    def readable_to(self, *, is_committed: bool) -> int:
        """Return the first offset that a consumer may not read; `is_committed` is its isolation level."""
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
        """The offset up to which this disk allows acknowledgement: the end of the log, or of its synced part."""
        return self.next_offset if self._unsynced_records < self.config.flush_messages else self.recovery_point

    @property
    def size_bytes(self) -> int:
        """The total size of all batches."""
        return self.segments.size_bytes if self.error is None else 0

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self.error is not None and self.error.code == ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def _unsynced_records(self) -> int:
        return self.next_offset - self._durability.recovery_point

    def configure(self, config: LogConfig) -> None:
        """Use a new configuration from now on, even for the active segment."""
        self.config = config
        if self.error is not None:
            return
        self.segments.last.configure(config)
        if config.flush_ms < NEVER_MS:
            self._syncs.by_at_the_latest(self, self._services.clock() + config.flush_ms)
        self.moved()

    def own(self, owner: LogOwner) -> None:
        """Set the owner, which decides how much of this log is committed.

        Args:
            owner: see `LogOwner`. The log refers to it only weakly, so log files are closed as soon as the log and
                its owner are released.
        """
        self._owner = weakref.ref(owner)

    # The start and the end.

    def commit_to(self, offset: int) -> list[int]:
        """Move the high watermark up, since all required replicas have the records before it.

        Args:
            offset: not after the end of the log; a lower offset has no effect.

        Returns:
            The first offsets of the transactions that no longer hold back the last stable offset.
        """
        self.high_watermark = max(self.high_watermark, offset)
        return self.producers.note_high_watermark(offset)

    def set_high_watermark(self, offset: int) -> list[int]:
        """Set the high watermark to the leader's, or to the end of this log if that is lower; it may also move back.

        Args:
            offset: the leader's high watermark, which may be after the end of this log.

        Returns:
            See `commit_to`.
        """
        self.high_watermark = min(max(offset, self.log_start_offset), self.next_offset)
        return self.producers.note_high_watermark(self.high_watermark)

    def lead(self, leader_epoch: int) -> None:
        """Begin a leader epoch that the controller has assigned to this broker; appends now use this epoch.

        Args:
            leader_epoch: the epoch, which must not be lower than the last batch's.

        Raises:
            LocalProtocolError: the epoch is lower, or the log is being truncated.
        """
        if leader_epoch < self.leader_epoch or self.is_unsettled:
            reason = "it is being truncated" if self.is_unsettled else f"its last epoch is {self.leader_epoch}"
            raise LocalProtocolError(f"{self.folder} cannot begin leader epoch {leader_epoch}: {reason}")
        if self._waiting:  # a fetched part would be appended after the start of this epoch
            self.refuse_waiting(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.folder} has a new epoch"))
        if leader_epoch > self.leader_epoch:
            self.epochs.begin(leader_epoch, self.next_offset)

    def refuse_waiting(self, error: BrokerError) -> None:
        """Fail the appends waiting for a segment or a truncation, since this broker's role has ended."""
        waiting, self._waiting = self._waiting, deque()
        for append in waiting:
            call(append.done, error)
        self._call_when_rolled()

    def begin_at(self, offset: int) -> None:
        """Move the start of the log up; earlier records are no longer readable.

        Args:
            offset: up to the high watermark; a lower offset has no effect.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.begin_at(offset)
            if (owner := self._owner()) is not None:
                owner.trimmed()

    def drop_first(self, count: int) -> tuple[Segment, ...]:
        """Make the log begin with a later segment; return the earlier segments, whose files are no longer needed.

        Args:
            count: the number of segments to drop; they must be durable, and before the high watermark.
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
        """Return the batches starting at `offset`, as a region of a file.

        Args:
            offset: the first offset to read.
            max_bytes: upper bound of the region.
            at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
            up_to: the offset to stop at; None for the high watermark or the last stable offset.
            is_committed: whether to read up to the last stable offset, and look for aborted transactions.

        Raises:
            NotPrepared: the index of a segment is being rebuilt; the owner is notified when it is ready.
            BrokerError: OFFSET_OUT_OF_RANGE; CORRUPT_MESSAGE if a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        if not self.log_start_offset <= offset <= self.next_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is out of range; the log extends from {self.log_start_offset} to {self.next_offset}",
            )
        if up_to is None:
            up_to = self.readable_to(is_committed=is_committed)
        if offset >= up_to:
            return Read(None, is_first_whole=False, aborted=() if is_committed else None)
        return self._reader.read(
            self.segments, offset, max_bytes, up_to, at_least_one=at_least_one, with_aborted=is_committed
        )

    def headers(self) -> Iterator[tuple[File, BatchHeader]]:
        """Yield the header of every batch, and the file that contains it.

        Raises:
            DecodeError: a batch is damaged.
            OSError: the disk failed.
        """
        return self.segments.headers()

    def offset_for_timestamp(self, timestamp: int, *, up_to: int | None = None) -> TimestampAndOffset | None:
        """Return the first record at or after `timestamp`; None if no such record exists or is readable.

        Args:
            timestamp: milliseconds since the epoch.
            up_to: the first offset that may not be read, or None for the high watermark.

        Raises:
            NotPrepared: see `when_prepared`.
            BrokerError: CORRUPT_MESSAGE if a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        found = self._reader.offset_for_timestamp(self.segments, timestamp, self.log_start_offset)
        return found if found and found.offset < (self.high_watermark if up_to is None else up_to) else None

    def max_timestamp(self, *, up_to: int | None = None) -> TimestampAndOffset | None:
        """Return the first record that has the highest timestamp; None in an empty log, or if the record is unreadable.

        Raises:
            NotPrepared, BrokerError: see `offset_for_timestamp`.
        """
        self._check()
        highest = self._reader.max_timestamp(self.segments)
        return None if highest == NO_TIMESTAMP else self.offset_for_timestamp(highest, up_to=up_to)

    def when_prepared(self, read: Callable[[], T], done: Callable[[T | BrokerError], None]) -> None:
        """Call `read` as soon as its prerequisites are ready; see `LogReader.when_prepared`."""
        self._reader.when_prepared(read, done)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which `offset` was, or will be, written."""
        return self.epochs.at(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the highest known leader epoch up to `epoch` and its end offset; see `LeaderEpochs.end_of`.

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
            data: one checked batch in writable memory. The base offset and leader epoch are stamped into it, as is the
                timestamp if the topic uses log append time.
            batch: its header.
            now_ms: the current time.
            done: called once, usually before `append` returns, with the result when the batch is in the log, or with
                the error. The batch can be acknowledged once the high watermark has passed it.
            is_client: whether a client produced it; coordinators write batches without sequence numbers.
            verification: permission to begin a transaction in this log (see `Producers.begin_verification`).
        """
        if self.config.is_log_append_time:
            batch = batch._replace(max_timestamp=now_ms)
        if self._takes(batch, now_ms):
            self._append(data, batch, now_ms, done, is_client, verification)
        else:
            self._wait(batch, now_ms, done, lambda: self._append(data, batch, now_ms, done, is_client, verification))

    def append_marker(self, marker: Marker, transaction_version: int, now_ms: int, done: Done) -> None:
        """Append a marker that ends a transaction, even if no transaction is open.

        Args:
            marker: the coordinator's marker.
            transaction_version: the coordinator's transaction version (see `Producers.check_marker`).
            now_ms: the current time.
            done: see `append`; the error may be INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        data, batch = build_marker(marker, now_ms)
        make = partial(self._append_marker, data, batch, now_ms, done, marker, transaction_version)
        if self._takes(batch, now_ms):
            make()
        else:
            self._wait(batch, now_ms, done, make)

    def _takes(self, batch: BatchHeader, now_ms: int) -> bool:
        """Return whether a batch can be appended now."""
        if self.error is not None or self._holds or self._waiting:
            return False
        return not self.segments.last.is_full_for(batch, now_ms)

    def _wait(self, batch: BatchHeader, now_ms: int, done: Done, make: Callable[[], None]) -> None:
        """Perform an append once a segment has room for it."""
        if self.error is not None:
            done(self.error)
            return
        self._waiting.append(WaitingAppend(batch, now_ms, done, make))
        if not self._holds and len(self._waiting) == 1:
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
        if found is not None:  # a duplicate gets the offsets of the original
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
            done(self._write_failed(error))
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
        finally:  # the batch is in the log even if the callback fails
            self.moved()
            if self.config.flush_ms < NEVER_MS:
                self._syncs.by(self, now_ms + self.config.flush_ms)

    # Following.

    def append_as_follower(self, data: Buffer, from_offset: int, leader_epoch: int, now_ms: int, done: Done) -> None:
        """Append the leader's batches unchanged, with one write per segment.

        Args:
            data: the records of the partition in a fetch response: batches, the last of which may be partial.
            from_offset: the fetch offset, which was the end of this log; see `FetchedBatches.can_follow`.
            leader_epoch: see `check_fetched`.
            now_ms: the current time.
            done: called once, usually before this method returns and before a sync, with the batches' offsets (if there
                are none, the last is below the first), or with OFFSET_OUT_OF_RANGE or an error from `check_fetched`.
        """
        try:
            self._check()
            fetched = check_fetched(data, leader_epoch)
        except BrokerError as error:
            done(error)
            return
        if not fetched.batches:
            done(Appended(self.next_offset, self.next_offset - 1, NO_TIMESTAMP))
        elif self._holds or self._waiting:
            self._waiting.append(self._following(fetched, 0, from_offset, now_ms, done))
        else:
            self._follow(fetched, 0, from_offset, now_ms, done)

    def _follow(self, fetched: FetchedBatches, number: int, from_offset: int, now_ms: int, done: Done) -> None:
        """Append the fetched batches, starting with index `number`, to the last segment and to new ones."""
        if from_offset != self.next_offset or not fetched.can_follow(number, self.segments, self.log_start_offset):
            reason = f"the batches fetched from offset {from_offset} begin at {fetched.batches[number].base_offset}"
            done(BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{reason}, and the log ends at {self.next_offset}"))
            return
        end = number
        while end < len(fetched.batches):
            number, (end, base_offset) = end, fetched.fit(end, self.segments.last, now_ms)
            if end == number:
                self._waiting.appendleft(self._following(fetched, number, self.next_offset, now_ms, done))  # first
                self._roll(base_offset)
                self.moved()  # the rest may be rejected
                return
            if (error := self._write_fetched(fetched, number, end, now_ms)) is not None:
                done(error)
                return
        try:
            done(Appended(fetched.batches[0].base_offset, self.next_offset - 1, NO_TIMESTAMP))
        finally:
            self.moved()
            if self.config.flush_ms < NEVER_MS:
                self._syncs.by(self, now_ms + self.config.flush_ms)

    def _following(
        self, fetched: FetchedBatches, number: int, from_offset: int, now_ms: int, done: Done
    ) -> WaitingAppend:
        follow = partial(self._follow, fetched, number, from_offset, now_ms, done)
        return WaitingAppend(fetched.batches[number], now_ms, done, follow)

    def _write_fetched(self, fetched: FetchedBatches, number: int, end: int, now_ms: int) -> BrokerError | None:
        """Append some fetched batches to the last segment; return the error, if any."""
        segment = self.segments.last
        try:
            segment.append_all(fetched.slice(number, end), fetched.batches[number:end], now_ms)
        except OSError as error:
            return self._write_failed(error)
        self.next_offset = segment.next_offset
        fetched.note(number, end, segment, self.epochs, self.producers, self._owner())
        return None

    def truncate_to(self, offset: int, done: Settled) -> None:
        """Durably remove all records at or after an offset, and reset all state accordingly; appends wait meanwhile.

        Args:
            offset: the new end; the log ends earlier if a batch would have to be split. If no readable records precede
                the offset, the log continues there. An offset after the end only drops epochs without records.
            done: called once with None, or with the error that has ended the log.
        """

        def plan() -> Truncation | None:
            return Truncation(min(self.log_start_offset, offset), offset) if offset < self.next_offset else None

        self._truncate(plan, done)

    def start_at(self, offset: int, done: Settled) -> None:
        """Durably remove all records; the log then begins and ends at an offset.

        Args:
            offset: the start of the leader's log.
            done: see `truncate_to`.
        """
        self._truncate(lambda: Truncation(offset, offset), done)

    def _truncate(self, plan: Plan, done: Settled) -> None:
        self._holds += 1
        self._syncs.is_paused = True
        self.refuse_waiting(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.folder} is being truncated"))
        self._truncations.begin(self, plan, done)

    def settle(self, *, is_checkpointed: bool = True) -> None:
        """Forget a truncation that opening the log completed; call `on_truncated` first unless `is_checkpointed`."""
        settle = self._truncations.settle if is_checkpointed else self._truncations.conclude
        self.turns.take(lambda: settle(self, lambda error: None))

    @property
    def is_unsettled(self) -> bool:
        """Whether appends wait for a truncation that is in progress, or was completed by opening, until `settle`."""
        return self._truncations.running > 0

    def take_truncated(self, found: TruncatedLog, truncation: Truncation) -> None:
        """Adopt the state after a truncation. Called by `Truncations`."""
        where, before = self._services.disk.describe(self.folder), self.next_offset
        self.segments, self.next_offset, self.producers = found
        self.segments.last.configure(self.config)
        start_offset = truncation.start_offset
        if not truncation.is_complete:  # the start may have moved since the truncation was decided
            start_offset = min(max(start_offset, self.log_start_offset), self.next_offset)
        self.log_start_offset = start_offset
        is_empty = self.next_offset <= self.log_start_offset
        self.epochs.end_at(0 if is_empty else self.next_offset)
        self.set_high_watermark(self.next_offset if is_empty else self.high_watermark)
        self._durability.cut(self.segments, self.next_offset, is_empty=is_empty)
        text = "%s: truncated from offset %d to %d; the log begins at %d"
        logger.info(text, where, before, self.next_offset, self.log_start_offset)
        if (owner := self._owner()) is not None:
            owner.truncated()

    def continue_appends(self) -> None:
        """Resume appends after a truncation, unless another one follows. Called by `Truncations`."""
        self._holds -= 1
        if not self._truncations.running and self.error is None:
            if (owner := self._owner()) is not None:
                call(owner.settled)
            self._syncs.go_on(self)
            self._append_waiting()
            self._call_when_rolled()

    # Rolling.

    def _write_failed(self, error: OSError) -> BrokerError:
        if is_short_of_descriptors(error):  # the file was not open yet
            self._services.tell_shortage(self.folder, error)
        else:
            self.fail(error)
        return self.error or storage_error(error)

    def _roll(self, base_offset: int | None = None) -> None:
        """Begin a new segment, whose file is created in the background; appends wait for it.

        Args:
            base_offset: the base offset of a segment that replaces the last, empty one; None for one at the end.
        """
        self._holds += 1
        created: list[Segment] = []
        last, end_offset = self.segments.last, self.next_offset
        write_snapshot = self.snapshots.prepared(self.producers)

        def create() -> None:
            disk, folder = self._services.disk, self.folder
            if base_offset is None:
                write_snapshot()
                created.append(Segment.create(disk, folder, end_offset, self.config))
                return
            for offset in [each for each in self.snapshots.offsets if each > base_offset]:
                self.snapshots.remove(offset)
            created.append(Segment.create(disk, folder, base_offset, self.config))
            last.delete()

        def done(error: Exception | None) -> None:
            self._holds -= 1
            if self.error is not None:
                return
            if error is not None:
                if is_short_of_descriptors(error):
                    # No state has changed: the next append or callback that needs a new segment will retry.
                    self._services.tell_shortage(self.folder, error)
                    self.refuse_waiting(storage_error(error))
                else:
                    self.fail(error)
                return
            created[0].configure(self.config)  # it may have changed since the file was created
            if base_offset is None:
                last.seal()
                # Do this even for a segment without appends since startup, which the next sync stores again.
                last.is_stored = False
                self._durability.unstored.append(last)
                self.segments = self.segments.rolled(created[0])
                self.sync()
            else:
                self.segments = self.segments.replaced([last], created[0])
                self._durability.has_new_names = True
            self._append_waiting()
            self._call_when_rolled()

        self._files.do(create, done)

    def _append_waiting(self) -> None:
        while self._waiting and not self._holds and self.error is None:
            first = self._waiting[0]
            if self.segments.last.is_full_for(first.batch, first.now_ms):
                self._roll()
            else:
                call(self._waiting.popleft().make)

    # Upkeep.

    def roll(self, done: Callable[[], None]) -> None:
        """Begin a new segment even if the last one, which must not be empty, has room.

        Args:
            done: called when the new segment exists, when it could not be created this time, or when the log has ended.
        """
        self._when_rolled.append(done)
        if self.error is not None:
            self._call_when_rolled()
        elif not self._holds:
            self._roll()

    def _call_when_rolled(self) -> None:
        waiting, self._when_rolled = self._when_rolled, []
        for done in waiting:
            call(done)

    # Syncing.

    def moved(self) -> None:
        """Notify the owner of a change, and sync the log if `flush.messages` requires it."""
        if (owner := self._owner()) is not None:
            owner.moved()
        elif not self.is_replicated:
            self.commit_to(self.acknowledged_to)
        if self._unsynced_records >= self.config.flush_messages:
            self.sync()

    def sync(self) -> None:
        """Make everything in the log durable, in the background."""
        self._syncs.sync(self)

    def store(self, segments: Sequence[Segment], done: Callable[[], None]) -> None:
        """Make complete segments durable with their indexes; only then can their files be removed.

        Args:
            segments: segments of this log.
            done: called when they are durable, or when the log has ended.
        """
        self._syncs.store(self, segments, done)

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """See `FileWork.when_quiet`."""
        self._files.when_quiet(callback)

    # Ending.

    def fail(self, error: Exception) -> None:
        """Go offline, since the disk no longer matches the state of this log."""
        logger.error("%s: taking the log offline: %s", self._services.disk.describe(self.folder), error)
        self.end(storage_error(error))

    def end(self, error: BrokerError) -> None:
        """End the log: all waiting and later requests fail with `error`."""
        if self.error is None:
            self.error = error
            self._syncs.cancel()
            self.refuse_waiting(error)
            if (owner := self._owner()) is not None:
                owner.ended(error)
            self._syncs.tell_stored(self)

    def close(self) -> None:
        """Complete the indexes and make everything durable. The log must not be used afterwards."""
        if self.error is None:
            try:
                if not self._truncations.has_begun(self):
                    self._complete()
            except OSError as error:
                self.fail(error)
            if self.is_unsettled:
                self.end(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.folder} is closed"))
        self._release()  # other logs need the file descriptors

    def _complete(self) -> None:
        self.segments.last.seal()
        unstored = self._durability.unstored = [segment for segment in self.segments if not segment.is_stored]
        if self.next_offset and unstored:  # otherwise there have been no appends since startup
            self.snapshots.prepared(self.producers, is_last=True)()
            self._syncs.sync_in_place(self)
