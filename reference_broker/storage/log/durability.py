"""The durable part of a log, and the syncs that extend it.

A sync covers the log as it is when the sync begins. `work` runs on any thread, and `note` records the success on the
request thread. The log decides when to sync; only one sync is in flight at a time.

Source: `UnifiedLog.flush` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.storage.producers.producer_state import Snapshots
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.segments.syncing import make_durable
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import call

__all__ = ["Durability", "Sync"]


class Sync(NamedTuple):
    """A sync of a log in its state at some moment.

    Attributes:
        work: syncs the files, on any thread; raises OSError if the disk fails.
        note: records the success, given the log's current segments; returns whether more complete segments are durable.
    """

    work: Callable[[], None]
    note: Callable[[Segments], bool]


class Durability:
    """The durable part of a log.

    Args:
        services: see `LogServices`.
        folder: the folder of the log.
        snapshots: the snapshots of its producers.

    Attributes:
        recovery_point: everything before this offset is on disk.
        stored_to: everything before this offset is on disk in complete segments with their indexes. Only a truncation
            moves it back. A reader that finds that an index has been lost does not, since the next startup would find
            the same.
        unstored: sealed segments whose indexes are not durable yet, except those in the running sync.
        has_new_names: whether some file names that existed when the log was opened may not be durable yet; a roll syncs
            the names that it creates.
    """

    def __init__(self, services: LogServices, folder: str, snapshots: Snapshots) -> None:
        self.recovery_point = self.stored_to = 0
        self.unstored: list[Segment] = []
        self.has_new_names = True
        self._disk = services.disk
        self._folder = folder
        self._snapshots = snapshots
        #: Sealed segments in the running sync.
        self._storing: Sequence[Segment] = ()
        #: Callbacks waiting for segments to be durable with their indexes.
        self._when_stored: list[tuple[Sequence[Segment], Callable[[], None]]] = []

    def sync(self, all_segments: Segments, end_offset: int, before: Callable[[], None] | None = None) -> Sync:
        """Return a sync of the current log.

        Args:
            all_segments: the segments of the log.
            end_offset: the end of the log.
            before: work that has to succeed first, or None.
        """
        disk, folder, snapshots = self._disk, self._folder, self._snapshots
        self._storing = sealed = self.unstored
        self.unstored = []
        segments = [segment for segment in all_segments.since(self.recovery_point) if segment not in sealed]
        has_new_names = self.has_new_names or bool(sealed)
        self.has_new_names = False

        def work() -> None:
            if before is not None:
                before()
            # Once retention has removed the records, only the snapshot has their producers.
            for segment in sealed:
                snapshots.sync_from(segment.next_offset)
            make_durable(disk, folder, sealed, segments, with_names=has_new_names)

        def note(segments_now: Segments) -> bool:
            self._storing = ()
            for segment in sealed:
                segment.stored()
            self.recovery_point = max(self.recovery_point, end_offset)
            self.stored_to = max(self.stored_to, min(self.recovery_point, segments_now.stored_to))
            return bool(sealed)

        return Sync(work, note)

    def cut(self, segments: Segments, end_offset: int, *, is_empty: bool) -> None:
        """Record that the log was truncated durably, while no sync was running.

        Args:
            segments: the segments that the log has now.
            end_offset: the new end.
            is_empty: whether no record remains.
        """
        left = set(segments)
        self.unstored = [segment for segment in self.unstored if segment in left]
        self._when_stored = [([each for each in those if each in left], done) for those, done in self._when_stored]
        if is_empty:
            self.recovery_point = self.stored_to = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.stored_to = min(self.stored_to, segments.last.base_offset)

    def take_back(self) -> None:
        """Record that the prepared sync was not started, so its work still has to be done."""
        self.unstored = [*self._storing, *self.unstored]
        self._storing = ()
        self.has_new_names = True

    # Waiting callbacks.

    def when_stored(self, segments: Sequence[Segment], done: Callable[[], None]) -> None:
        """Call `done` once segments are durable with their indexes (see `tell`)."""
        self._when_stored.append((segments, done))

    def tell(self, *, has_ended: bool) -> bool:
        """Call each callback whose segments are durable, or all if the log has ended; return whether a sync is needed.

        Even a segment that was durable may need another one, since a reader rebuilds an index that it finds damaged.
        """
        waiting, self._when_stored = self._when_stored, []
        for segments, done in waiting:
            if has_ended or all(segment.is_stored for segment in segments):
                call(done)
                continue
            self._when_stored.append((segments, done))
            known = {*self.unstored, *self._storing}
            self.unstored += [each for each in segments if not each.is_stored and each not in known]
        return bool(self._when_stored)
