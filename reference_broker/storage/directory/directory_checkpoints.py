"""The checkpoints of a data directory: start offsets, recovery points and high watermarks of logs.

The files are in Kafka's format, with topic names rather than ids. A partition is therefore not created while a file may
still have an entry for a deleted partition of the same name. Deletions drop these entries, with one write for many
deletions; entries that remain after a crash or a disk error are dropped at the next startup or before the partition is
created.

A recovery point on disk moves back only when a log is truncated, which removes everything after it. Compaction leaves
gaps only before a recovery point; recovery would treat a gap after it as damage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from kafkawire.reference_broker.storage.checkpoints import offsets_if_sound, write_offsets
from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.records.java_integers import OFFSET_MAX
from kafkawire.sdk.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["DirectoryCheckpoints"]

logger = logging.getLogger("kafkawire.broker")

#: The files, and the consequence if one is damaged.
_FILES = {
    LOG_START_OFFSETS: "logs start at their first segment",
    RECOVERY_POINTS: "all segments are checked",
    CLEANER_OFFSETS: "logs are compacted again",
    HIGH_WATERMARKS: "followers continue at the start of their logs",
}


class DirectoryCheckpoints:
    """The checkpoints of all logs. Blocking steps run one at a time (see `BackgroundQueue`).

    Args:
        disk: the data directory.

    Raises:
        OSError: the disk failed.

    Attributes:
        are_points_sound: whether the recovery points were readable at startup.
        recovery_points: the recovery points on disk, by topic and partition.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        found = {path: offsets_if_sound(disk, path, otherwise) for path, otherwise in _FILES.items()}
        points = found[RECOVERY_POINTS]
        self.are_points_sound = points is not None
        self.recovery_points: Mapping[Partition, int] = points or {}
        self._starts: Mapping[Partition, int] = found[LOG_START_OFFSETS] or {}
        self._high_watermarks: Mapping[Partition, int] = found[HIGH_WATERMARKS] or {}
        #: Before a broker joins a cluster, its logs have no followers, and its directory has no file of high
        #: watermarks.
        self._was_alone = HIGH_WATERMARKS not in disk.names("")
        # A log without an entry has not been compacted; if the file itself is missing, this is unknown for every log.
        self._unnamed = 0 if self.are_points_sound and RECOVERY_POINTS in disk.names("") else None
        #: Partitions whose folders have not been opened but may be later, so their entries are kept.
        self._unopened: set[Partition] = set()
        #: Deleted partitions that may still have entries.
        self._gone = {place for offsets in found.values() for place in offsets or ()}
        #: Files whose last write may not be durable yet.
        self._unsure = {LOG_START_OFFSETS}

    def start_of(self, place: Partition) -> int:
        """Return the start offset of a log at startup."""
        return self._starts.get(place, 0)

    def high_watermark_of(self, place: Partition) -> int:
        """Return the high watermark of a log at startup, which may be after its end."""
        return self._high_watermarks.get(place, OFFSET_MAX if self._was_alone and place in self.recovery_points else 0)

    def recovery_point_of(self, place: Partition) -> int | None:
        """Return the offset before which a log is durable, or None if unknown."""
        return self.recovery_points.get(place, self._unnamed)

    # Deleted partitions.

    def keep_only(self, present: Iterable[Partition], unopened: Collection[Partition] = ()) -> None:
        """At startup, drop the entries of all other partitions; a disk error does not stop the startup.

        Args:
            present: the partitions with a log.
            unopened: the partitions whose folders were not opened.
        """
        self._unopened.update(unopened)
        self._gone.difference_update(present, unopened)
        self.forget_if_possible()

    def adopt(self, place: Partition) -> None:
        """Record that the folder of a partition has been opened after all."""
        self._unopened.discard(place)
        self._gone.discard(place)

    def note_deleted(self, places: Collection[Partition]) -> None:
        """Record that partitions have been deleted."""
        self._unopened.difference_update(places)
        self._gone.update(places)

    def forget_if_possible(self) -> None:
        """Drop the entries of deleted partitions; after an error, `clear` drops them before a name is reused."""
        try:
            self._forget()
        except OSError as error:
            logger.warning("could not remove the entries of deleted topics from the checkpoints: %s", error)

    def clear(self, places: Collection[Partition]) -> None:
        """Drop the entries of deleted partitions with these names before new ones are created.

        Raises:
            OSError: the disk failed.
        """
        self.note_deleted(self._unopened.intersection(places))
        if not self._gone.isdisjoint(places):
            self._forget()

    def _forget(self) -> None:
        if not self._gone:
            return
        present = set(self._disk.names(""))
        for path, otherwise in _FILES.items():
            offsets = offsets_if_sound(self._disk, path, otherwise) if path in present else None
            if offsets is None:
                continue  # the next startup would find no entries either
            kept = self._without_gone(offsets)
            if len(kept) < len(offsets) or path in self._unsure:
                self.write(path, kept)
        self._starts, self.recovery_points, self._high_watermarks = map(
            self._without_gone, (self._starts, self.recovery_points, self._high_watermarks)
        )
        self._gone.clear()

    def _without_gone(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, int]:
        return {place: offset for place, offset in offsets.items() if place not in self._gone}

    def _of_unopened(self, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        return {place: offsets[place] for place in self._unopened if place in offsets}

    def lower_cleaned(self, ends: Mapping[Partition, int]) -> None:
        """Lower the cleaner's checkpoint so that it does not exceed the ends of truncated logs.

        Args:
            ends: the new ends of these logs.

        Raises:
            OSError: the disk failed.
        """
        offsets = offsets_if_sound(self._disk, CLEANER_OFFSETS, _FILES[CLEANER_OFFSETS])
        lowered = {place: end for place, end in ends.items() if offsets is not None and offsets.get(place, 0) > end}
        if lowered:
            self.write(CLEANER_OFFSETS, {**(offsets or {}), **lowered})

    # Writing.

    def write(self, path: str, offsets: Mapping[Partition, int]) -> None:
        """Replace a file.

        Raises:
            OSError: the disk failed; the file has the old or the new content.
        """
        self._unsure.add(path)
        write_offsets(self._disk, path, offsets)
        self._unsure.remove(path)

    def work(self, logs: Iterable[tuple[str, int, PartitionLog]]) -> Callable[[], None]:
        """Return the work that writes the current start offsets and recovery points.

        Args:
            logs: all logs, with their topics and partition numbers.
        """
        points, starts, high_watermarks = map(
            self._of_unopened, (self.recovery_points, self._starts, self._high_watermarks)
        )
        changed = []
        are_known = True
        for name, number, log in logs:
            place = (name, number)
            if log.log_start_offset:
                starts[place] = log.log_start_offset
            if not log.is_offline:
                points[place] = log.stored_to
                if log.is_replicated:  # a replicated log stores its epochs itself
                    high_watermarks[place] = log.high_watermark
                elif not log.epochs.is_stored:
                    changed.append(log)
            # The state of a log that went offline may be wrong.
            elif place in self.recovery_points:
                points[place] = self.recovery_points[place]
                if log.is_replicated and place in self._high_watermarks:
                    high_watermarks[place] = self._high_watermarks[place]
            else:
                # A file without this log would imply that it has not been compacted.
                are_known = are_known and self._unnamed is not None

        def work() -> None:
            if starts != self._starts or LOG_START_OFFSETS in self._unsure:
                self.write(LOG_START_OFFSETS, starts)
                self._starts = starts
            # These come first: recovery points without high watermarks would imply that there are no followers.
            if high_watermarks and high_watermarks != self._high_watermarks:
                self.write(HIGH_WATERMARKS, high_watermarks)
                self._high_watermarks = high_watermarks
            if are_known:
                self.write(RECOVERY_POINTS, points)
                self.recovery_points, self._unnamed = points, 0
            for log in changed:
                log.epochs.store(self._disk, log.folder)

        return work
