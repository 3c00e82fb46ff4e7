"""The upkeep of logs: retention, compaction, and the removal of files, in the background and one log at a time.

An error affects only the log in which it occurs, and is logged once; that log is not compacted again until the next
startup.

Source: `LogManager.cleanupLogs`, `LogCleaner`, `LogCleanerManager` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple

from kafkawire.reference_broker.storage.cleaning.background_jobs import BackgroundJobs, Job, Wait, in_background
from kafkawire.reference_broker.storage.cleaning.cleaner_checkpoint import CleanerCheckpoint
from kafkawire.reference_broker.storage.cleaning.compaction import Compaction, CompactionServices
from kafkawire.reference_broker.storage.cleaning.log_to_clean import CompactionBounds, LogToClean, log_to_clean
from kafkawire.reference_broker.storage.cleaning.removal import remove_files, remove_old
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.sdk.errors import DecodeError, EncodeError

__all__ = ["Upkeep", "UpkeepLimits"]

_log = logging.getLogger("kafkawire.broker")


class _Dirty(NamedTuple):
    """A log worth compacting."""

    log: PartitionLog
    to_clean: LogToClean


class UpkeepLimits(NamedTuple):
    """The schedule of the upkeep.

    Attributes:
        retention_check_delay_ms: the delay from startup to the first check for removable segments.
        retention_check_interval_ms: the interval between these checks.
        cleaner_backoff_ms: how often to check for logs to compact.
        cleaner_keys_bytes: memory for the keys of a log during compaction.
        is_cleaner_enabled: whether to compact logs.
    """

    retention_check_delay_ms: int
    retention_check_interval_ms: int
    cleaner_backoff_ms: int
    cleaner_keys_bytes: int
    is_cleaner_enabled: bool


class Upkeep:
    """The upkeep of all logs of a directory.

    Args:
        directory: holds the logs.
        limits: see `UpkeepLimits`.
        now_ms: the current time.
    """

    def __init__(self, directory: LogDirectory, limits: UpkeepLimits, now_ms: int) -> None:
        self._directory = directory
        self._limits = limits
        self._timers = directory.services.timers
        self._jobs = BackgroundJobs()
        #: Logs whose upkeep has failed.
        self._failed: set[PartitionLog] = set()
        self._is_checking = False
        self._checkpoint = CleanerCheckpoint(directory)
        self._timers.at(now_ms + limits.retention_check_delay_ms, self._check_retention)
        if limits.is_cleaner_enabled:
            self._timers.at(now_ms + limits.cleaner_backoff_ms, self._check_compaction)

    def change_limits(self, limits: UpkeepLimits) -> None:
        """Apply new limits, starting with the next check; `is_cleaner_enabled` does not change."""
        self._limits = limits._replace(is_cleaner_enabled=self._limits.is_cleaner_enabled)

    @property
    def failed_logs(self) -> int:
        """The number of logs whose upkeep has failed."""
        return len(self._failed)

    def stop(self) -> None:
        """Stop starting work."""
        self._jobs.stop()

    # Retention.

    def _check_retention(self, now_ms: int) -> None:
        self._timers.at(now_ms + self._limits.retention_check_interval_ms, self._check_retention)
        if self._is_checking:
            return  # the previous check is still running
        self._is_checking = True
        logs = {log for _, _, log in self._directory.logs()}
        self._failed &= logs
        for log in logs:
            # If the cleaner is running, it checks compacted logs itself.
            if not (log.config.is_compacted and self._limits.is_cleaner_enabled):
                self._add(log, self._remove_old(log, now_ms - self._timers.jumped_ms))
        self._jobs.add(self._checked(), lambda error: None)

    def _checked(self) -> Job:
        self._is_checking = False
        yield from ()

    def _now_of(self, begun_ms: int) -> int:
        """Return the start time of a job on the current clock, which may have jumped since then.

        Args:
            begun_ms: its start time, minus the clock jumps up to then.
        """
        return begun_ms + self._timers.jumped_ms

    def _remove_old(self, log: PartitionLog, begun_ms: int) -> Job:
        retired = partial(self._retired, log, begun_ms)
        yield from remove_old(self._directory, log, retired, self._now_of(begun_ms))

    def _retired(self, log: PartitionLog, begun_ms: int, paths: Sequence[str]) -> None:
        if paths:
            self._timers.at(
                self._now_of(begun_ms) + log.config.file_delete_delay_ms, lambda _: self._remove_files(log, paths)
            )

    def _remove_files(self, log: PartitionLog, paths: Sequence[str]) -> None:
        disk = self._directory.services.disk
        # By the time this runs, a folder with this name may belong to another topic.
        work = in_background(self._directory.queue, lambda: remove_files(disk, paths), lambda: log.error is None)
        self._add(log, (wait for wait in (work,)))

    # Compaction.

    def _check_compaction(self, now_ms: int) -> None:
        begun_ms = now_ms - self._timers.jumped_ms

        def done(error: Exception | None = None) -> None:
            if error is not None:
                _log.error("compaction failed: %s", error, exc_info=error)
            self._timers.at(self._now_of(begun_ms) + self._limits.cleaner_backoff_ms, self._check_compaction)

        def compact_or_end() -> Job:
            if (yield from self._compact_dirtiest(begun_ms)):
                # The next compaction is queued behind jobs added in the meantime, so retention continues even if there
                # is a lot to compact.
                self._jobs.add(compact_or_end(), done)
            else:
                yield from self._trim_compacted(begun_ms)
                done()

        self._jobs.add(compact_or_end(), done)

    def _compact_dirtiest(self, begun_ms: int) -> Generator[Wait, Any, bool]:
        """Compact the dirtiest log; return whether to look for another."""
        found = yield from self._dirtiest(begun_ms)
        if found is None:
            return False
        log, to_clean = found
        truncations = log.truncations
        try:
            yield from self._compact(log, to_clean, begun_ms)
        except Exception as error:
            self._fail(log, truncations, error)
            return not is_short_of_descriptors(error)  # otherwise the same log would immediately be chosen again
        return True

    def _trim_compacted(self, begun_ms: int) -> Job:
        """Remove old segments of compacted logs."""
        for _, _, log in list(self._directory.logs()):
            has_old = log.config.has_retention or log.log_start_offset > log.segments.first.base_offset
            if log.config.is_compacted and has_old and log.error is None:
                truncations = log.truncations
                try:
                    yield from self._remove_old(log, begun_ms)
                except Exception as error:
                    self._fail(log, truncations, error)

    def _dirtiest(self, begun_ms: int) -> Generator[Wait, Any, _Dirty | None]:
        found = None
        for topic, number, log in list(self._directory.logs()):
            if not log.config.is_compacted or len(log.segments) == 1 or log.error is not None or log in self._failed:
                continue
            if log.is_unsettled:  # the dirty records may be gone soon
                continue
            truncations = log.truncations
            # This includes segments whose indexes a reader found missing; compaction stops at the first of them.
            unstored = [segment for segment in log.segments if segment.is_sealed and not segment.is_stored]
            if unstored:
                yield partial(_store, log, unstored)
            durable_to = self._directory.checkpoints.recovery_points.get((topic, number), 0)
            clean_to = self._checkpoint.offset_of(log)
            bounds = CompactionBounds(clean_to, log.log_start_offset, log.last_stable_offset, durable_to)
            look = partial(log_to_clean, log.segments, log.config, bounds, self._now_of(begun_ms))
            try:
                to_clean = yield in_background(self._directory.queue, look, partial(_is_there, log))
            except Exception as error:
                self._fail(log, truncations, error)
                continue
            if (
                to_clean is not None
                and to_clean.is_worth_it(log.config)
                and (found is None or to_clean.ratio > found.to_clean.ratio)
            ):
                found = _Dirty(log, to_clean)
        return found

    def _compact(self, log: PartitionLog, to_clean: LogToClean, begun_ms: int) -> Job:
        tools = CompactionServices(
            self._directory.services,
            self._directory.queue,
            self._limits.cleaner_keys_bytes,
            partial(self._retired, log, begun_ms),
        )
        compacted = yield from Compaction(tools, log, to_clean, self._now_of(begun_ms)).run()
        _log.info(
            "%s: compacted to offset %d, from %d bytes to %d",
            self._directory.services.disk.describe(log.folder),
            *compacted,
        )
        yield from self._checkpoint.note(log, compacted.end_offset)

    # Errors.

    def _add(self, log: PartitionLog, job: Job) -> None:
        self._jobs.add(job, partial(self._fail, log, log.truncations))

    def _fail(self, log: PartitionLog, truncations: int, error: Exception) -> None:
        """Report an error, unless the log was truncated, in which case its segments may have vanished during a read.

        Args:
            log: the log.
            truncations: the number of truncations when the work began.
            error: the error.
        """
        if log.is_unsettled or log.truncations != truncations:
            return
        if is_short_of_descriptors(error) and log.error is None:
            services = self._directory.services
            where, now_ms = services.disk.describe(log.folder), services.clock()
            services.lines.error(("upkeep", where), now_ms, "%s: upkeep will be retried later: %s", where, error)
            return
        # The error is logged once, even though retention is retried, and not at all if it is what ended the log.
        if log not in self._failed and log.error is None:
            self._failed.add(log)
            where = self._directory.services.disk.describe(log.folder)
            is_known = isinstance(error, OSError | DecodeError | EncodeError)
            _log.error("%s: upkeep failed: %s", where, error, exc_info=None if is_known else error)


def _store(log: PartitionLog, segments: Sequence[Segment], done: Callable[[Any], None]) -> None:
    log.store(segments, lambda: done(None))


def _is_there(log: PartitionLog) -> bool:
    return log.error is None
