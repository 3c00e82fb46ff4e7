"""Remove the segments at the start of a log that nothing keeps any more.

First the start of the log moves and is written down, then the files are renamed, and later they are removed: a crash
between any two steps leaves files that the next start removes.

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

__all__ = ["Retired", "remove_files", "remove_old"]

logger = logging.getLogger("kafkawire.broker")

#: Takes the files that were renamed, to remove them after the log's `file.delete.delay.ms`.
Retired = Callable[[Sequence[str]], None]


def remove_old(directory: LogDirectory, log: PartitionLog, retired: Retired, now_ms: int) -> Job:
    """Remove the segments of a log that may go, if there are any.

    Args:
        directory: has the log.
        log: a log of it.
        retired: see `Retired`.
        now_ms: the current time.
    """

    def is_there() -> bool:
        return log.error is None

    def blocking(work: Callable[[], Any]) -> Wait:
        return in_background(directory.queue, work, is_there)

    segments, end_offset = log.segments, log.next_offset

    def find() -> int:
        return removable(segments, log.config, log.log_start_offset, log.high_watermark, now_ms)

    count = (yield blocking(find)) or 0
    if count == len(segments) and log.next_offset != end_offset:
        count -= 1  # the last segment has got records meanwhile
    if count and count == len(log.segments):
        yield lambda done: log.roll(lambda: done(None))
        if count == len(log.segments):
            return  # no new one could be made for now
    if not count or not is_there():
        return
    # A sync that is about to write their indexes would write them after they are gone.
    going = log.segments.first_of(count)
    yield lambda done: log.store(going, lambda: done(None))
    if not is_there():
        return
    dropped = log.drop_first(count)
    logger.info(
        "%s: the log begins at offset %d now, removing what was before (segments: %d)",
        directory.services.disk.describe(log.folder),
        log.log_start_offset,
        count,
    )
    # If that fails, they go nevertheless, oldest first: a full disk needs the room. The log begins with what is left.
    yield lambda done: directory.checkpoint(lambda error: done(None))

    def retire() -> list[str]:
        paths = [path for segment in dropped for path in segment.retire()]
        return paths + log.snapshots.retire([segment.base_offset for segment in dropped])

    retired((yield blocking(retire)) or ())


def remove_files(disk: Disk, paths: Sequence[str]) -> None:
    """Remove files that were renamed, on any thread; some of them may have gone with their topic.

    Raises:
        OSError: the disk failed.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(path)
