"""The log of one partition: a sequence of segments, appended to at the end; `reading.py` reads it.

Batches arrive checked (`validation.py`) and get their offsets and leader epoch here, in place; they are stored and sent
unchanged. An append is one write to the page cache; the high watermark follows at once, or after a sync if
`flush.messages` asks for one (`durable_log.py`). New segment files are made in the background. After any failed write
or sync the log is offline, and every request is told so; a file that could not be opened because the process has too
many is tried again.

Source: `UnifiedLog`, `LocalLog` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import NEVER_MS, LogConfig
from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.log.durable_log import DurableLog
from kafkawire.reference_broker.storage.log.epochs import load_epochs
from kafkawire.reference_broker.storage.log.high_watermark import HighWatermark
from kafkawire.reference_broker.storage.log.last_stable_offset import LastStableOffset
from kafkawire.reference_broker.storage.log.recovery import Places, open_segments
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producer_state import load_producers
from kafkawire.reference_broker.storage.producers.producers import (
    BATCHES_KEPT,
    CompletedTransaction,
    Marker,
    Verification,
)
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.segments.stored_batches import epoch_starts
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.records import place, stamp

__all__ = ["Appended", "Done", "PartitionLog"]

logger = logging.getLogger("kafkawire.broker")

#: How much of the log, beyond the last two segments, is searched for what a producer may send again after a crash.
_RECALLED_BYTES = 64 * 1024 * 1024


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


class _Append(NamedTuple):
    """An append that waits for a new segment.

    Attributes:
        batch: its header.
        now_ms: when it was asked for.
        done: see `append`.
        make: makes it.
    """

    batch: BatchHeader
    now_ms: int
    done: Done
    make: Callable[[], None]


class PartitionLog(DurableLog):
    """A partition on disk; how it is read is in `ReadableLog`, how it becomes durable in `DurableLog`.

    Args:
        services: disk, background, timers.
        folder: `<topic>-<partition>`; it must exist.
        config: see `LogConfig`.
        is_clean: whether the last shutdown was clean; otherwise every segment from `recovery_point` on is checked.
        log_start_offset: from the checkpoint; 0 for a new log.
        recovery_point: everything before this offset is on disk, None if nobody knows.
        last_epoch: see `load_epochs`.
        problem: why its folder cannot be used; the log is offline then, and its files are left alone.

    Attributes:
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
        first = Segment(services.disk, folder, log_start_offset, config)
        super().__init__(services, folder, config, Segments([first]), log_start_offset)
        self.truncated_bytes = 0
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
            # A defect, which must not keep the broker from serving the other partitions.
            logger.exception("%s: the log cannot be opened", services.disk.describe(folder))
            self.fail(error)

    def _open(self, is_clean: bool, log_start_offset: int, known_point: int | None, last_epoch: int) -> None:
        disk = self._services.disk
        recovery_point = known_point or 0
        places = Places(log_start_offset, recovery_point, known_point is None and self.config.is_compacted)
        segments, self.truncated_bytes = open_segments(disk, self.folder, self.config, places, is_clean=is_clean)
        self.segments = Segments(segments)
        self._unstored = [segment for segment in segments if segment.is_sealed and not segment.is_stored]
        self.next_offset = segments[-1].next_offset
        # The folder of a log that was closed empty was never synced.
        self._has_new_names = not self.next_offset or not all(segment.is_stored for segment in segments)
        self.log_start_offset = min(max(log_start_offset, segments[0].base_offset), self.next_offset)
        self.recovery_point = min(max(recovery_point, self.log_start_offset), self.next_offset)
        # What is before it is not looked at again, so not even an index may be missing there.
        self.stored_to = self.recovery_point
        self.epochs = load_epochs(
            disk,
            self.folder,
            self.next_offset,
            (epoch_starts(each.file, each.base_offset, each.headers) for each in segments if each.size_bytes),
            last_epoch=last_epoch,
            is_cut=not is_clean or self.truncated_bytes > 0 or self.next_offset < recovery_point,
        )
        self._load_producers(is_clean=is_clean)
        # What a crash has left becomes readable once it is durable; and gaps that a checkpoint does not cover, once it
        # is written again, the next start would take for damage.
        if self._unsynced_records >= self.config.flush_messages or places.may_have_gaps:
            self._sync_in_place()
        self.producers.note_high_watermark(self.next_offset)
        self._high_watermark = HighWatermark(self.next_offset)
        self._last_stable_offset = LastStableOffset(self._high_watermark, self.producers.first_unstable_offset)
        self._release()

    def _release(self) -> None:
        for segment in self.segments:
            segment.release()

    def _load_producers(self, *, is_clean: bool) -> None:
        """Load what is known of producers, and find the aborted transactions that an index lacks."""
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
            done: called once: when the batch is in the log, usually before `append` returns, or with the error; it
                may be acknowledged when the high watermark has passed it.
            is_client: whether a client produced it; coordinators write without sequence numbers.
            verification: what begins a transaction here, see `Producers.begin_verification`.
        """
        if self.config.is_log_append_time:
            batch = batch._replace(max_timestamp=now_ms)
        if self._takes(batch, now_ms):
            self._append(data, batch, now_ms, done, is_client, verification)
        else:
            self._wait(batch, now_ms, done, lambda: self._append(data, batch, now_ms, done, is_client, verification))

    def append_marker(self, marker: Marker, transaction_version: int, now_ms: int, done: Done) -> None:
        """Append the marker that ends a transaction; a marker that finds none open is appended as well.

        Args:
            marker: what the coordinator writes.
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
        """Make an append when there is a segment for it."""
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
        """Append what has been checked: records, or a marker."""
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
        if marker is None:
            self.producers.note(batch, base_offset)
            if self.producers.has_transaction_from(base_offset):
                self._last_stable_offset.begun(base_offset)
        else:
            ended = self.producers.note_marker(marker, base_offset, batch.max_timestamp)
            if ended is not None and ended.is_aborted:
                segment.transactions.append(ended)
        self._high_watermark.appended(self.next_offset, batch.size_bytes)
        try:
            done(Appended(base_offset, self.next_offset - 1, log_append_time_ms))
        finally:  # whatever the caller makes of it, the batch is in the log
            self._advance()
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
                    # Nothing has changed: the next append, or what waits for a new segment, tries again.
                    self._tell_shortage(error)
                    self._refuse_waiting(storage_error(error))
                else:
                    self.fail(error)
                return
            sealed = self.segments.last
            sealed.seal()
            # Also one that nobody has appended to since the start, which the next sync stores again.
            sealed.is_stored = False
            self._unstored.append(sealed)
            self.segments = self.segments.rolled(created[0])
            self._sync()
            self._append_waiting()
            self._call_when_rolled()

        self._in_background(create, done)

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
            done: called when there is one, when the log has ended, or when none could be made for now.
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

    # Ending.

    def close(self) -> None:
        """Complete the indexes and make everything durable; the log is not used afterwards."""
        if self.error is None:
            self._complete()
        self._release()  # others need the file descriptors to be closed

    def _complete(self) -> None:
        self.segments.last.seal()
        self._unstored = [segment for segment in self.segments if not segment.is_stored]
        if not self.next_offset or not self._unstored:
            return  # nobody has appended since the start
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
