"""Remove segments that are no longer needed from the start of a log.

First the log's start offset is moved and made durable, then the files are renamed, and later they are removed. After a
crash between any two steps, the next startup removes the remaining files.

Source: `UnifiedLog.deleteSegments`, `LocalLog.deleteSegmentFiles` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.reference_broker.storage.cleaning.background_jobs import Job, Wait, in_background
from kafkawire.reference_broker.storage.cleaning.retention import removable
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.segments.segment import Segment

__all__ = ["Retired", "remove_files", "remove_old"]

logger = logging.getLogger("kafkawire.broker")

#: Receives renamed files, and removes them after the log's `file.delete.delay.ms`.
Retired = Callable[[Sequence[str]], None]


def remove_old(directory: LogDirectory, log: PartitionLog, retired: Retired, now_ms: int) -> Job:
    """Remove the removable segments of a log.

    Args:
        directory: holds the log.
        log: a log of the directory.
        retired: see `Retired`.
        now_ms: the current time.
    """

    def is_there() -> bool:
        # A truncation may have changed which segments have to stay.
        return log.error is None and log.truncations == truncations

    def blocking(work: Callable[[], Any]) -> Wait:
        return in_background(directory.queue, work, is_there)

    if log.is_unsettled:
        return
    truncations = log.truncations
    segments, end_offset = log.segments, log.next_offset

    def find() -> int:
        return removable(segments, log.config, log.log_start_offset, log.high_watermark, now_ms)

    count = (yield blocking(find)) or 0
    if count == len(segments) and log.next_offset != end_offset:
        count -= 1  # records have been appended to the last segment in the meantime
    if not is_there():
        return
    if count and count == len(log.segments):
        yield lambda done: log.roll(lambda: done(None))
        if count == len(log.segments):
            return  # no new segment could be created this time
    if not count or not is_there():
        return
    going = log.segments.first_of(count)
    # A pending sync would write their indexes after their removal.
    yield lambda done: log.store(going, lambda: done(None))
    yield lambda done: log.turns.take(lambda: done(None))
    try:
        if is_there():
            yield from _remove_first(directory, log, going, retired)
    finally:
        log.turns.give()


def _remove_first(directory: LogDirectory, log: PartitionLog, going: Sequence[Segment], retired: Retired) -> Job:
    """Remove the first segments of a log when its turn comes, unless the log has been truncated by then."""
    count = len(going)
    if log.error is not None or count >= len(log.segments) or log.segments.first_of(count) != going:
        return
    dropped = log.drop_first(count)
    logger.info(
        "%s: the log now begins at offset %d, so earlier segments are removed (%d)",
        directory.services.disk.describe(log.folder),
        log.log_start_offset,
        count,
    )
    # If the checkpoint fails, for example on a full disk, the segments are removed anyway, oldest first, since the
    # space is needed. After a restart, the log begins with the remaining segments.
    yield lambda done: directory.checkpoint(lambda error: done(None))

    def retire() -> list[str]:
        paths = [path for segment in dropped for path in segment.retire()]
        return paths + log.snapshots.retire([segment.base_offset for segment in dropped])

    retired((yield in_background(directory.queue, retire, lambda: log.error is None)) or ())


def remove_files(disk: Disk, paths: Sequence[str]) -> None:
    """Remove renamed files, on any thread; some may already be gone with their topic.

    Raises:
        OSError: the disk failed.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(path)
