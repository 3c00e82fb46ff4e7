"""The leader epochs of a partition and their start offsets, in `leader-epoch-checkpoint`.

A single broker begins a new epoch when it starts after a crash. The log may have been truncated, and a client that has
read records lost in the crash detects this by asking where an older epoch ends. The file can be rebuilt from the
batches, each of which contains its epoch, so it is not synced. After a power cut, the file and the batches may both
lack the latest epoch that clients have seen. Therefore the highest epoch of all partitions is kept durably in a file in
the data directory, and no partition starts below it.

In a cluster, the controller assigns epochs, and followers take them from the batches. There the file is durable up to
the recovery point, and later epochs are read from the batches.

Source: `LeaderEpochFileCache` in Apache Kafka.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from kafkawire.reference_broker.storage.checkpoints import (
    LAST_EPOCH,
    DamagedFile,
    read_epochs,
    write_epochs,
)
from kafkawire.reference_broker.storage.disk.disk import Disk, read_file, replace_file
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.storage.checkpoints import LEADER_EPOCHS

__all__ = ["LeaderEpochs", "load_epochs", "load_told_epochs", "read_last_epoch", "write_last_epoch"]

logger = logging.getLogger("kafkawire.broker")

#: The first epoch of a partition.
_FIRST_EPOCH = 0

#: No epoch has this many characters.
_EPOCH_BYTES_MAX = 20


class LeaderEpochs:
    """The leader epochs of a partition.

    Args:
        entries: (epoch, first offset) pairs, ascending in both.

    Attributes:
        current: the epoch in which batches are appended; -1 if there is no epoch.
        is_stored: whether the file is up to date.
    """

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.is_stored = True
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.current = NO_PARTITION_LEADER_EPOCH
        self._note_current()

    def _note_current(self) -> None:
        self.current = self._epochs[-1] if self._epochs else NO_PARTITION_LEADER_EPOCH

    def at(self, offset: int) -> int:
        """Return the epoch in which `offset` was, or will be, written; -1 if there is no epoch."""
        if not self._epochs:
            return NO_PARTITION_LEADER_EPOCH
        return self._epochs[max(bisect_right(self._starts, offset) - 1, 0)]

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the highest known epoch up to `epoch` and its end offset; (-1, -1) for an epoch that has not begun.

        All records of epochs before the first known one are gone, so these epochs end where it begins.
        """
        if epoch == NO_PARTITION_LEADER_EPOCH:
            return NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
        if epoch == self.current:
            return epoch, log_end_offset
        later = bisect_right(self._epochs, epoch)
        if later == len(self._epochs):
            return NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
        return self._epochs[later - 1] if later else epoch, self._starts[later]

    def begin(self, epoch: int, offset: int) -> None:
        """Begin a new epoch at the end of the log; an epoch without records is dropped."""
        self.end_at(offset)
        self._epochs.append(epoch)
        self._starts.append(offset)
        self.current = epoch
        self.is_stored = False

    def note(self, epoch: int, offset: int) -> None:
        """Record the epoch of a batch that a leader has appended; epochs left without records are dropped.

        Args:
            epoch: the epoch of the batch; ignored if it is not higher than the earlier epochs.
            offset: the base offset of the batch.
        """
        self.end_at(offset)
        if epoch > self.current:
            self.begin(epoch, offset)

    def begin_at(self, offset: int) -> None:
        """Drop the epochs before `offset`, the new start of the log."""
        first = max(bisect_right(self._starts, offset) - 1, 0)
        if first or (self._starts and self._starts[0] < offset):
            self._epochs, self._starts = (
                self._epochs[first:],
                [max(self._starts[first], offset), *self._starts[first + 1 :]],
            )
            self.is_stored = False

    def end_at(self, offset: int) -> None:
        """Drop the epochs that begin at or after `offset`, the new end of the log."""
        while self._starts and self._starts[-1] >= offset:
            del self._epochs[-1], self._starts[-1]
            self.is_stored = False
        self._note_current()

    def prepared(self, disk: Disk, folder: str) -> Callable[[], None]:
        """Return work that writes the file durably, on any thread, or does nothing if the file is up to date."""
        if self.is_stored:
            return lambda: None
        self.is_stored = True  # until it is changed again
        entries = self.entries()

        def write() -> None:
            try:
                write_epochs(disk, f"{folder}/{LEADER_EPOCHS}", entries, is_durable=True)
            except OSError:
                self.is_stored = False
                raise

        return write

    def store(self, disk: Disk, folder: str) -> None:
        """Write the file, on any thread, unless it is up to date.

        Raises:
            OSError: the disk failed.
        """
        if not self.is_stored:
            self.is_stored = True  # until another thread changes it again
            try:
                write_epochs(disk, f"{folder}/{LEADER_EPOCHS}", self.entries())
            except OSError:
                self.is_stored = False
                raise

    def entries(self) -> list[tuple[int, int]]:
        """Return the (epoch, first offset) pairs."""
        return list(zip(self._epochs, self._starts, strict=True))


def load_epochs(
    disk: Disk,
    folder: str,
    start_offset: int,
    end_offset: int,
    segments: Iterable[Iterable[tuple[int, int]]],
    *,
    last_epoch: int = 0,
    is_cut: bool = False,
) -> LeaderEpochs:
    """Load the epochs of a partition, or rebuild them if the file is missing or damaged.

    Args:
        disk: holds the file.
        folder: the partition's folder.
        start_offset: the start of the log; earlier epochs are dropped.
        end_offset: the end of the log; an epoch can begin there but not later. Recovery may have truncated the log.
        segments: for each segment, the epochs of its batches with their first offsets; read only to rebuild the file.
            Batches after damage in a segment are unknown, so an epoch that begins there appears to begin in the next
            segment. After damage in the last segment, a new epoch begins, since an older one must not continue.
        last_epoch: the lowest epoch in which the partition may continue; a new epoch must be higher.
        is_cut: whether to begin a new epoch because records that clients have read may be lost.

    Raises:
        OSError: the disk failed.
    """
    path = f"{folder}/{LEADER_EPOCHS}"
    try:
        stored = read_epochs(disk, path)
    except DamagedFile as error:
        logger.warning("%s; it is rebuilt from the batches", error)
        stored = None
    known = stored or []
    is_unknown = False
    if stored is None:
        for starts in segments:
            try:
                for epoch, offset in starts:
                    is_unknown = False
                    if not known or epoch > known[-1][0]:
                        while known and known[-1][1] > offset:
                            del known[-1]  # its batch has a damaged offset
                        known.append((epoch, offset))
            except DecodeError as error:
                is_unknown = True
                where = disk.describe(folder)
                logger.warning("%s: %s; later leader epochs in the same segment may be unknown", where, error)
    epochs = LeaderEpochs([entry for entry in known if entry[1] <= end_offset] or [(_FIRST_EPOCH, end_offset)])
    if is_cut or is_unknown:
        # Includes epochs whose records are all gone.
        epochs.begin(max([last_epoch, epochs.current, *(epoch for epoch, _ in known)]) + 1, end_offset)
    elif epochs.current < last_epoch:
        # No records have been lost, but the file may be older than the partition's last epoch.
        epochs.begin(last_epoch, end_offset)
    epochs.begin_at(start_offset)
    epochs.is_stored = epochs.entries() == stored
    epochs.store(disk, folder)
    return epochs


def load_told_epochs(
    disk: Disk,
    folder: str,
    start_offset: int,
    end_offset: int,
    checked_from: int,
    segments: Callable[[int], Iterable[Iterable[tuple[int, int]]]],
    from_start: Iterable[tuple[int, int]] = (),
) -> LeaderEpochs:
    """Load the epochs of a partition in a cluster: those of its batches, which the controller assigned.

    Args:
        disk: holds the file.
        folder: the partition's folder.
        start_offset: the start of the log; earlier epochs are dropped.
        end_offset: the end of the log.
        checked_from: the base offset of the first segment that may have epochs missing from the file.
        segments: given a base offset, returns the epochs of the batches in that segment and each later one, with their
            first offsets.
        from_start: yields the epoch and the base offset of each batch, beginning with the segment that contains the
            start of the log; read only if a crash has moved the start back to before the first epoch in the file.

    Raises:
        OSError: the disk failed.
    """
    try:
        stored = read_epochs(disk, f"{folder}/{LEADER_EPOCHS}")
    except DamagedFile as error:
        logger.warning("%s; it is rebuilt from the batches", error)
        stored = None
    if stored is None:
        checked_from = 0
    known = [entry for entry in stored or [] if entry[1] < checked_from]
    if known and known[0][1] > start_offset:
        first_offset = known[0][1]
        before = takewhile(lambda entry: entry[1] < first_offset, from_start)
        earlier = list(_from_batches(disk, folder, (before,)))
        known = [*earlier, *(entry for entry in known if not earlier or entry[0] > earlier[-1][0])]
    for epoch, offset in _from_batches(disk, folder, segments(checked_from)):
        if epoch > (known[-1][0] if known else NO_PARTITION_LEADER_EPOCH):
            known.append((epoch, offset))
    epochs = LeaderEpochs([entry for entry in known if entry[1] < end_offset])
    epochs.begin_at(start_offset)
    epochs.is_stored = epochs.entries() == stored
    epochs.prepared(disk, folder)()
    return epochs


def _from_batches(disk: Disk, folder: str, segments: Iterable[Iterable[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    """Yield the epochs of batches, ascending; see `load_told_epochs`."""
    last = NO_PARTITION_LEADER_EPOCH
    for starts in segments:
        try:
            for epoch, offset in starts:
                if epoch > last:
                    yield epoch, offset
                    last = epoch
        except DecodeError as error:
            where = disk.describe(folder)
            logger.warning("%s: %s; later leader epochs in the same segment may be unknown", where, error)


def read_last_epoch(disk: Disk) -> int:
    """Return the highest epoch of all partitions at the last startup.

    Raises:
        OSError: the disk failed.
    """
    content = (read_file(disk, LAST_EPOCH, _EPOCH_BYTES_MAX) or b"0").strip()
    if content.isdigit() and len(content) <= len(str(INT32_MAX)) and int(content) < INT32_MAX:
        return int(content)
    logger.warning("%s: ignoring %.20r, which is not a leader epoch", disk.describe(LAST_EPOCH), content)
    return 0


def write_last_epoch(disk: Disk, before: int, epochs: Iterable[int]) -> None:
    """Store the highest epoch of all partitions durably, before batches are written in it.

    Args:
        disk: holds the data directory.
        before: the stored epoch.
        epochs: the current epoch of each partition.

    Raises:
        OSError: the disk failed.
    """
    last = max(epochs, default=before)
    if last > before:
        replace_file(disk, LAST_EPOCH, b"%d\n" % last)
