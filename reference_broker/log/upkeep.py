"""The upkeep of logs: retention, compaction, and the removal of files, in the background and one log at a time.

An error concerns its log alone, and is told once. After one, the log is not compacted until the next start.

Source: `LogManager.cleanupLogs`, `LogCleaner`, `LogCleanerManager` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.reference_broker.log.jobs import Job, Jobs, in_background
from kafkawire.reference_broker.log.log_directory import LogDirectory
from kafkawire.reference_broker.log.partition_log import PartitionLog
from kafkawire.reference_broker.log.removal import remove_files, remove_old
from kafkawire.sdk.errors import DecodeError

__all__ = ["Upkeep", "UpkeepLimits"]

_log = logging.getLogger("kafkawire.broker")

#: How long after the start logs are looked at for the first time.
_FIRST_CHECK_MS = 30_000


class UpkeepLimits(NamedTuple):
    """When the upkeep does what.

    Attributes:
        retention_check_interval_ms: how often logs are looked at for segments that may go.
    """

    retention_check_interval_ms: int


class Upkeep:
    """The upkeep of all logs of a directory.

    Args:
        directory: has the logs.
        limits: see `UpkeepLimits`.
        now_ms: the current time.
    """

    def __init__(self, directory: LogDirectory, limits: UpkeepLimits, now_ms: int) -> None:
        self._directory = directory
        self._limits = limits
        self._timers = directory.services.timers
        self._jobs = Jobs()
        #: Logs that have had an error.
        self._failed: set[PartitionLog] = set()
        self._timers.at(now_ms + _FIRST_CHECK_MS, self._check_retention)

    def stop(self) -> None:
        """Begin nothing any more."""
        self._jobs.stop()

    # Retention.

    def _check_retention(self, now_ms: int) -> None:
        self._timers.at(now_ms + self._limits.retention_check_interval_ms, self._check_retention)
        if not self._jobs.is_idle:
            return  # what takes so long goes on
        self._failed.intersection_update({log for _, _, log in self._directory.logs()})
        for _, _, log in self._directory.logs():
            if not log.config.is_compacted:
                self._remove_old(log, now_ms)

    def _remove_old(self, log: PartitionLog, now_ms: int) -> None:
        def retired(paths: Sequence[str]) -> None:
            if paths:
                self._timers.at(now_ms + log.config.file_delete_delay_ms, lambda _: self._remove_files(log, paths))

        self._add(log, remove_old(self._directory, log, retired, now_ms))

    def _remove_files(self, log: PartitionLog, paths: Sequence[str]) -> None:
        disk = self._directory.services.disk
        # A folder of this name may be another topic's by then.
        work = in_background(self._directory.steps, lambda: remove_files(disk, paths), lambda: log.error is None)
        self._add(log, (wait for wait in (work,)))

    def _add(self, log: PartitionLog, job: Job) -> None:
        def failed(error: Exception) -> None:
            # Once, although it is tried again.
            if log not in self._failed:
                self._failed.add(log)
                where = self._directory.services.disk.describe(log.folder)
                _log.error("%s: upkeep failed: %s", where, error, exc_info=not isinstance(error, OSError | DecodeError))

        if log.error is None:
            self._jobs.add(job, failed)
