"""The schedule of a log's syncs: one is in flight at a time, and requests that arrive meanwhile share the next one.

Methods take the log as an argument; it stays alive as long as a sync or a timer needs it.

Source: `UnifiedLog.flush` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.log.durability import Durability, Sync
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs
from kafkawire.reference_broker.storage.log.file_work import FileWork
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import call
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError

__all__ = ["RETRY_MS", "Syncs"]

#: Delay before retrying after running out of file descriptors.
RETRY_MS = 1_000


class _Log(Protocol):
    """The log (see `PartitionLog`)."""

    @property
    def folder(self) -> str: ...
    @property
    def error(self) -> BrokerError | None: ...
    @property
    def segments(self) -> Segments: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def epochs(self) -> LeaderEpochs: ...
    @property
    def is_replicated(self) -> bool: ...
    @property
    def on_sealed(self) -> Callable[[], None] | None: ...
    def fail(self, error: Exception) -> None: ...
    def moved(self) -> None: ...


class Syncs:
    """The syncs of one log.

    Args:
        services: see `LogServices`.
        files: the background work of the log.
        durability: see `Durability`.

    Attributes:
        is_paused: whether syncs wait because files are being changed.
    """

    def __init__(self, services: LogServices, files: FileWork, durability: Durability) -> None:
        self.is_paused = False
        self._services = services
        self._files = files
        self._durability = durability
        self._is_syncing = False
        self._wants_sync = False
        self._timer: Timer | None = None

    # Timers.

    def by(self, log: _Log, deadline_ms: int) -> None:
        """Sync by a deadline, unless a sync is already planned."""
        if self._timer is None and log.next_offset > self._durability.recovery_point:
            self._timer = self._services.timers.at(deadline_ms, lambda now_ms: self._flush(log))

    def by_at_the_latest(self, log: _Log, deadline_ms: int) -> None:
        """Sync by a deadline, even if a sync is planned for later."""
        if self._timer is not None and self._timer.deadline_ms > deadline_ms:
            self.cancel()
        self.by(log, deadline_ms)

    def cancel(self) -> None:
        """Cancel the planned sync."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self, log: _Log) -> None:
        self._timer = None
        self.sync(log)

    # Syncs.

    def sync(self, log: _Log) -> None:
        """Make everything in the log durable; if a sync is running, another one will follow it."""
        if self._is_syncing or self.is_paused:
            self._wants_sync = True
            return
        if log.error is not None:
            return
        self._is_syncing = True
        work, note = self._prepared(log)

        def done(error: Exception | None) -> None:
            self._is_syncing = False
            wants_sync, self._wants_sync = self._wants_sync, False
            if log.error is not None:
                return
            if error is not None:
                if is_short_of_descriptors(error):
                    self._retry_later(log, error)
                else:
                    log.fail(error)
                return
            self._synced(log, note)
            log.moved()
            self.tell_stored(log)
            if wants_sync:
                self._sync_rest(log)

        self._files.do(work, done)

    def go_on(self, log: _Log) -> None:
        """End the pause."""
        self.is_paused = False
        wants_sync, self._wants_sync = self._wants_sync, False
        if wants_sync:
            self._sync_rest(log)
        self.tell_stored(log)

    def sync_in_place(self, log: _Log) -> None:
        """Make everything in the log durable before this returns.

        Raises:
            OSError: the disk failed.
        """
        work, note = self._prepared(log)
        work()
        self._synced(log, note)

    def tell_stored(self, log: _Log) -> None:
        """Call the callbacks whose segments are durable; if other callbacks are waiting, sync the log for them."""
        if self._durability.tell(has_ended=log.error is not None):
            self.sync(log)

    def store(self, log: _Log, segments: Sequence[Segment], done: Callable[[], None]) -> None:
        """See `PartitionLog.store`."""
        self._durability.when_stored(segments, done)
        self.tell_stored(log)

    def _prepared(self, log: _Log) -> Sync:
        before = log.epochs.prepared(self._services.disk, log.folder) if log.is_replicated else None
        return self._durability.sync(log.segments, log.next_offset, before)

    def _synced(self, log: _Log, note: Callable[[Segments], bool]) -> None:
        """Record a successful sync."""
        if note(log.segments) and log.on_sealed is not None:
            call(log.on_sealed)

    def _sync_rest(self, log: _Log) -> None:
        if log.next_offset > self._durability.recovery_point or self._durability.unstored:
            self.sync(log)

    def _retry_later(self, log: _Log, error: Exception) -> None:
        """Retry a sync later if it could not open a file. No sync has failed, so no data is lost."""
        self._services.tell_shortage(log.folder, error)
        self._durability.take_back()
        self.cancel()
        deadline_ms = self._services.clock() + RETRY_MS
        self._timer = self._services.timers.at(deadline_ms, lambda now_ms: self._flush(log))
