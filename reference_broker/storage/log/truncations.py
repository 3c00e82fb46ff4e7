"""Truncate a log in use. One truncation runs at a time; appends, rolls and syncs wait, as do reads of data to remove.

Methods take the log as an argument; it stays alive as long as a truncation needs it. See `truncation.py` for the steps
on disk.

Source: `UnifiedLog.truncateTo`, `truncateFullyAndStartAt` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs
from kafkawire.reference_broker.storage.log.file_work import FileWork, Turns
from kafkawire.reference_broker.storage.log.opening import TruncatedLog, truncate_log
from kafkawire.reference_broker.storage.log.reading import LogReader
from kafkawire.reference_broker.storage.log.syncs import RETRY_MS
from kafkawire.reference_broker.storage.log.truncation import TRUNCATION, Truncation, end_truncation
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError

__all__ = ["Plan", "Settled", "Truncations"]

logger = logging.getLogger("kafkawire.broker")

#: Called once with None, or with the error that prevented the truncation.
Settled = Callable[[BrokerError | None], None]

#: Called when the truncation's turn comes; returns its bounds, or None if nothing has to be truncated.
Plan = Callable[[], Truncation | None]


class _Log(Protocol):
    """The log (see `PartitionLog`)."""

    @property
    def folder(self) -> str: ...
    @property
    def config(self) -> LogConfig: ...
    @property
    def error(self) -> BrokerError | None: ...
    @property
    def segments(self) -> Segments: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def epochs(self) -> LeaderEpochs: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def truncations(self) -> int: ...
    @truncations.setter
    def truncations(self, number: int) -> None: ...
    @property
    def on_truncated(self) -> Callable[[Any, int, Settled], None] | None: ...
    @property
    def turns(self) -> Turns: ...
    def fail(self, error: Exception) -> None: ...
    def take_truncated(self, found: TruncatedLog, truncation: Truncation) -> None: ...
    def continue_appends(self) -> None: ...


class Truncations:
    """The truncations of one log.

    Args:
        services: see `LogServices`.
        files: background work of the log.
        reader: see `LogReader`.

    Attributes:
        running: the number of truncations in progress or waiting for their turn, including, until `settle`, one that
            was completed when the log was opened.
    """

    def __init__(self, services: LogServices, files: FileWork, reader: LogReader) -> None:
        self.running = 0
        self._services = services
        self._files = files
        self._reader = reader

    def begin(self, log: _Log, plan: Plan, done: Settled) -> None:
        """Truncate a log when its turn comes; appends wait until `continue_appends` is called.

        Args:
            log: the log.
            plan: see `Plan`.
            done: called once with None, or with the error that has ended the log.
        """
        self.running += 1

        def decide() -> None:
            truncation = plan() if log.error is None else None
            if truncation is not None:
                log.truncations += 1
                if truncation.end_offset < log.high_watermark and not truncation.is_complete:
                    where, text = (
                        self._services.disk.describe(log.folder),
                        "%s: truncating to offset %d, below the high watermark %d",
                    )
                    logger.warning(text, where, truncation.end_offset, log.high_watermark)
                before = log.segments
                going = before if truncation.is_complete else before.since(truncation.end_offset)
                self._cut(log, truncation, done, self._reader.hold(going))
                return
            if log.error is None:
                log.epochs.end_at(log.next_offset)
            self._end(log, done)

        # Neither a sync nor a roll may write to files that are about to be removed.
        log.turns.take(lambda: self._files.when_quiet(decide))

    def _cut(self, log: _Log, truncation: Truncation, done: Settled, release: Callable[[], None]) -> None:
        """Change the files, unless the log has ended; in the meantime, readers wait for `release`."""
        if log.error is not None:  # by now its folder may belong to another topic
            release()
            self._end(log, done)
            return
        disk, folder, config, snapshots = self._services.disk, log.folder, log.config, log.snapshots
        before, high_watermark, found = log.segments, log.high_watermark, list[TruncatedLog]()

        def work() -> None:
            found.append(truncate_log(disk, folder, config, snapshots, before, high_watermark, truncation))

        def again() -> None:
            self._cut(log, truncation, done, release)

        def worked(error: Exception | None) -> None:
            if error is not None and is_short_of_descriptors(error) and log.error is None:
                self._services.tell_shortage(folder, error)
                self._services.timers.at(
                    self._services.clock() + RETRY_MS, lambda now_ms: self._files.when_quiet(again)
                )
                return
            if error is not None:
                log.fail(error)
            elif log.error is None:
                log.take_truncated(found[0], truncation)
            release()
            if log.error is not None:
                self._end(log, done)
            else:
                self.conclude(log, done)

        self._files.do(work, worked)

    def has_begun(self, log: _Log) -> bool:
        """Return whether a truncation may have changed files; if so, the next opening completes it.

        Args:
            log: the log.

        Raises:
            OSError: the disk failed.
        """
        return self.running > 0 and TRUNCATION in self._services.disk.names(log.folder)

    def conclude(self, log: _Log, done: Settled) -> None:
        """Request that the checkpoints be written, then call `settle`."""
        if log.on_truncated is None:
            self.settle(log, done)
        else:
            log.on_truncated(log, log.next_offset, lambda failed: self.settle(log, done, failed))

    def settle(self, log: _Log, done: Settled, error: BrokerError | None = None) -> None:
        """Forget a truncation, once no checkpoint exceeds the end of the log.

        Args:
            log: the log.
            done: see `begin`.
            error: why the checkpoints could not be written, or None; with an error, the log goes offline.
        """
        if error is not None:
            log.fail(error)
        if log.error is not None:
            self._end(log, done)
            return

        def settled(error: Exception | None) -> None:
            if error is not None:
                log.fail(error)
            self._end(log, done)

        self._files.do(lambda: end_truncation(self._services.disk, log.folder), settled)

    def _end(self, log: _Log, done: Settled) -> None:
        self.running -= 1
        call(done, log.error)
        log.turns.give()
        log.continue_appends()
