"""The leader epochs of a partition: which epoch began at which offset, in `leader-epoch-checkpoint`.

The file can be rebuilt from the batches, each of which names its epoch, so it is not synced.

Source: `LeaderEpochFileCache` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Iterable

from kafkawire.reference_broker.disk.disk import Disk
from kafkawire.reference_broker.log.batches import BatchHeader
from kafkawire.reference_broker.log.checkpoints import LEADER_EPOCHS, DamagedFile, read_epochs, write_epochs
from kafkawire.sdk.errors import DecodeError

__all__ = ["LeaderEpochs", "load_epochs"]

logger = logging.getLogger("kafkawire.broker")

#: The first epoch of a partition.
_FIRST_EPOCH = 0


class LeaderEpochs:
    """The leader epochs of a partition.

    Args:
        entries: (epoch, first offset), both ascending; at least one.

    Attributes:
        is_stored: whether the file says the same.
    """

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.is_stored = True
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]

    @property
    def current(self) -> int:
        """The epoch in which batches are appended."""
        return self._epochs[-1]

    def at(self, offset: int) -> int:
        """Return the epoch in which `offset` was, or will be, written."""
        return self._epochs[max(bisect_right(self._starts, offset) - 1, 0)]

    def begin_at(self, offset: int) -> None:
        """Forget what was before `offset`, where the log now begins."""
        first = max(bisect_right(self._starts, offset) - 1, 0)
        if first or self._starts[0] < offset:
            self._epochs, self._starts = (
                self._epochs[first:],
                [max(self._starts[first], offset), *self._starts[first + 1 :]],
            )
            self.is_stored = False

    def store(self, disk: Disk, folder: str) -> None:
        """Write the file, on any thread, if it says something else.

        Raises:
            OSError: the disk failed.
        """
        if not self.is_stored:
            self.is_stored = True
            write_epochs(disk, f"{folder}/{LEADER_EPOCHS}", self.entries())

    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, first offset) of each epoch."""
        return list(zip(self._epochs, self._starts, strict=True))


def load_epochs(
    disk: Disk, folder: str, end_offset: int, batches: Iterable[tuple[object, BatchHeader]]
) -> LeaderEpochs:
    """Load the epochs of a partition, or rebuild them if the file is missing or damaged.

    Args:
        disk: where the file is.
        folder: the partition's folder.
        end_offset: the end of the log; an epoch may begin there, but not after it, where recovery may have cut.
        batches: each batch with its file; read only to rebuild the epochs.

    Raises:
        OSError: the disk failed.
    """
    path = f"{folder}/{LEADER_EPOCHS}"
    try:
        stored = read_epochs(disk, path)
    except DamagedFile as error:
        logger.warning("%s; it is rebuilt from the batches", error)
        stored = None
    entries = [entry for entry in stored or [] if entry[1] <= end_offset]
    if stored is None:
        # What cannot be read is found by those who fetch it.
        with contextlib.suppress(DecodeError):
            for _, header in batches:
                if not entries or header.leader_epoch > entries[-1][0]:
                    entries.append((header.leader_epoch, header.base_offset))
    entries = entries or [(_FIRST_EPOCH, end_offset)]
    if entries != stored:
        write_epochs(disk, path, entries)
    return LeaderEpochs(entries)
