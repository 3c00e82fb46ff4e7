"""The compaction checkpoint of each log, in `cleaner-offset-checkpoint`; a log without an entry is compacted again.

Source: `LogCleanerManager.updateCheckpoints` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkawire.reference_broker.storage.checkpoints import DamagedFile, read_offsets
from kafkawire.reference_broker.storage.cleaning.background_jobs import Job
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.storage.checkpoints import CLEANER_OFFSETS

__all__ = ["CleanerCheckpoint"]

_log = logging.getLogger("kafkawire.broker")


class CleanerCheckpoint:
    """The offset up to which each log has been compacted.

    Args:
        directory: holds the logs and the file.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        #: Keyed by log rather than by name, since a new topic may reuse the name of a deleted one.
        self._offsets: dict[PartitionLog, int] = {}
        directory.when_truncated.append(self._truncated)
        try:
            offsets = read_offsets(directory.services.disk, CLEANER_OFFSETS)
        except (DamagedFile, OSError) as error:
            _log.warning("%s; logs are compacted again", error)
            return
        for topic, number, log in directory.logs():
            if (topic, number) in offsets:
                # A log that was truncated or set aside may now end earlier.
                self._offsets[log] = min(offsets[topic, number], log.next_offset)

    def offset_of(self, log: PartitionLog) -> int:
        """Return the known start of the dirty part of a log."""
        return self._offsets.get(log, log.log_start_offset)

    def _truncated(self, log: PartitionLog, offset: int) -> None:
        """Record that a log now ends earlier; the directory updates the file."""
        if log in self._offsets:
            self._offsets[log] = min(self._offsets[log], offset)

    def note(self, log: PartitionLog, offset: int) -> Job:
        """Record that a log was compacted up to an offset.

        Raises:
            OSError: the disk failed.
        """
        self._offsets[log] = offset
        yield lambda done: self._directory.queue.do(self._write_work, done)

    def _write_work(self) -> Callable[[], None]:
        """Return work that writes the file. Call this only when its turn comes: topics may be deleted before."""
        places = {known: (topic, number) for topic, number, known in self._directory.logs()}
        self._offsets = {known: at for known, at in self._offsets.items() if known in places}
        offsets = {places[known]: at for known, at in self._offsets.items()}
        return lambda: self._directory.checkpoints.write(CLEANER_OFFSETS, offsets)
