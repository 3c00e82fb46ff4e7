"""The durable half of a partition's log: what is synced, how far it can be acknowledged, and what follows a failure.

One sync is in flight at a time: all producers that wait meanwhile share the next one. Whatever a log does to its files
in the background is counted, so that its folder is not removed, and created for another topic, while that goes on.

Source: `UnifiedLog.flush`, `LogDirFailureChannel` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.log.reading import ReadableLog
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.segments.syncing import make_durable
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import call
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError

__all__ = ["DurableLog", "when_all_quiet"]

logger = logging.getLogger("kafkawire.broker")

#: When what found no file descriptor is tried again.
_RETRY_MS = 1_000


class DurableLog(ReadableLog):
    """A partition's log and what of it is durable; `PartitionLog` appends to it.

    Args:
        services: disk, background, timers.
        folder: `<topic>-<partition>`.
        config: see `LogConfig`.
        segments: of the log.
        log_start_offset: the first readable offset.

    Attributes:
        config: see above.
        recovery_point: everything before this offset is on disk.
        stored_to: likewise, complete segments with their indexes; it never goes back, although a reader may find that
            an index was lost since, as the next start would.
        snapshots: see `Snapshots`.
        on_sealed: called when the recovery point has passed a complete segment, which is worth a checkpoint.
    """

    def __init__(
        self, services: LogServices, folder: str, config: LogConfig, segments: Segments, log_start_offset: int
    ) -> None:
        super().__init__(services, folder, segments, log_start_offset)
        self.config = config
        self.recovery_point = self.stored_to = 0
        self.on_sealed: Callable[[], None] | None = None
        self.snapshots = Snapshots(services.disk, folder)
        #: Sealed segments whose indexes are not durable yet, and those of the sync in flight.
        self._unstored: list[Segment] = []
        self._storing: Sequence[Segment] = ()
        #: Callers that wait for segments to be durable with their indexes.
        self._when_stored: list[tuple[Sequence[Segment], Callable[[], None]]] = []
        self._is_syncing = False
        self._wants_sync = False
        #: Whether names that were there when the log was opened may not be durable; a roll syncs its own.
        self._has_new_names = True
        self._flush_timer: Timer | None = None
        self._in_flight = 0
        #: Callers that wait until nothing is in flight.
        self._when_quiet: list[Callable[[], None]] = []

    @property
    def _unsynced_records(self) -> int:
        return self.next_offset - self.recovery_point

    # The background.

    def _in_background(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Do something to the files in the background; see `Background`."""
        self._in_flight += 1

        def ended(error: Exception | None) -> None:
            self._in_flight -= 1
            try:
                done(error)
            finally:
                if not self._in_flight:
                    self._call_when_quiet()

        self._services.background(work, ended)

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call `callback` once nothing in the background touches the files; a log that has ended begins nothing new."""
        self._when_quiet.append(callback)
        if not self._in_flight:
            self._call_when_quiet()

    def _call_when_quiet(self) -> None:
        waiting, self._when_quiet = self._when_quiet, []
        for callback in waiting:
            call(callback)

    # Syncing.

    def _flush_by(self, deadline_ms: int) -> None:
        """Sync at some time, unless that is planned already."""
        if self._flush_timer is None and self._unsynced_records:
            self._flush_timer = self._services.timers.at(deadline_ms, self._flush)

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
                if is_short_of_descriptors(error):
                    self._sync_later(error)
                else:
                    self.fail(error)
                return
            note()
            self._advance()
            self._call_when_stored()
            if wants_sync and (self._unsynced_records or self._unstored):
                self._sync()

        self._in_background(work, done)

    def _sync_later(self, error: Exception) -> None:
        """Sync again after a while what could not be opened: no sync has failed, so nothing is lost meanwhile."""
        self._tell_shortage(error)
        self._unstored = [*self._storing, *self._unstored]
        self._storing = ()
        self._has_new_names = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._flush_timer = self._services.timers.at(self._services.clock() + _RETRY_MS, self._flush)

    def _tell_shortage(self, error: Exception) -> None:
        where = self._services.disk.describe(self.folder)
        text = "%s: tried again later, for want of file descriptors (ulimit -n): %s"
        self._services.lines.error(("descriptors", where), self._services.clock(), text, where, error)

    def _sync_work(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return what syncs the log as it is now, on any thread, and what takes note of it afterwards."""
        disk, folder, end_offset = self._services.disk, self.folder, self.next_offset
        self._storing = sealed = self._unstored
        self._unstored = []
        segments = [segment for segment in self.segments.since(self.recovery_point) if segment not in sealed]
        has_new_names = self._has_new_names or bool(sealed)
        self._has_new_names = False

        def work() -> None:
            # Retention may take the records; then only the snapshot knows who wrote them.
            for segment in sealed:
                self.snapshots.sync_from(segment.next_offset)
            make_durable(disk, folder, sealed, segments, with_names=has_new_names)

        def note() -> None:
            self._storing = ()
            for segment in sealed:
                segment.stored()
            self.recovery_point = max(self.recovery_point, end_offset)
            self.stored_to = max(self.stored_to, min(self.recovery_point, self.segments.stored_to))
            if sealed and self.on_sealed is not None:
                call(self.on_sealed)

        return work, note

    def _sync_in_place(self) -> None:
        work, note = self._sync_work()
        work()
        note()

    def _advance(self) -> None:
        """Move the high watermark: to the end, or to what is durable while `flush.messages` asks for a sync."""
        is_at_end = self._unsynced_records < self.config.flush_messages
        offset = self.next_offset if is_at_end else self.recovery_point
        for first_offset in self.producers.note_high_watermark(offset):
            self._last_stable_offset.decided(first_offset)
        self._high_watermark.advance(offset)
        self._last_stable_offset.advance(self.producers.first_unstable_offset)
        if not is_at_end:
            self._sync()

    def store(self, segments: Sequence[Segment], done: Callable[[], None]) -> None:
        """Make complete segments durable with their indexes; their files may go only after that.

        Args:
            segments: of this log.
            done: called when they are, or the log has ended.
        """
        self._when_stored.append((segments, done))
        self._call_when_stored()

    def _call_when_stored(self) -> None:
        """Call those whose segments are durable now, or all if the log has ended; the others need a sync.

        Also of segments that were durable before: a reader rebuilds an index that it finds damaged.
        """
        waiting, self._when_stored = self._when_stored, []
        for segments, done in waiting:
            if self.error is not None or _are_stored(segments):
                call(done)
                continue
            self._when_stored.append((segments, done))
            known = {*self._unstored, *self._storing}
            self._unstored += [each for each in segments if not each.is_stored and each not in known]
            self._sync()

    # Ending.

    def fail(self, error: Exception) -> None:
        """Go offline: what the disk holds is no longer what this log believes."""
        logger.error("%s: the log is offline: %s", self._services.disk.describe(self.folder), error)
        self.end(storage_error(error))

    def end(self, error: BrokerError) -> None:
        """End the log: every request that waits, and every later one, is answered with `error`."""
        if self.error is None:
            self.error = error
            if self._flush_timer is not None:
                self._flush_timer.cancel()
            self._refuse_waiting(error)
            self._high_watermark.fail(error)
            self._last_stable_offset.wake()
            self._call_when_stored()

    def _refuse_waiting(self, error: BrokerError) -> None:
        """Answer the appends that wait."""


def when_all_quiet(logs: Sequence[DurableLog], callback: Callable[[], None]) -> None:
    """Call `callback` once nothing in the background touches the files of logs that have ended."""
    left = len(logs) + 1

    def quiet() -> None:
        nonlocal left
        left -= 1
        if not left:
            callback()

    for log in logs:
        log.when_quiet(quiet)
    quiet()


def _are_stored(segments: Sequence[Segment]) -> bool:
    return all(segment.is_stored for segment in segments)
