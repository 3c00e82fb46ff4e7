"""Open the segments of a partition, and repair them after a crash.

After a clean shutdown, only the end of the last segment is read. After a crash, every segment that may not be durable
is checked batch by batch. The log then ends before the first damaged or missing batch, and a log line reports what was
cut off, where and why.

Source: `LogLoader` in Apache Kafka.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.disk.disk import TEMPORARY_SUFFIX, Disk
from kafkawire.reference_broker.storage.log.truncation import TRUNCATION
from kafkawire.reference_broker.storage.segments.replacement import settle
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.syncing import SYNC_FAILED
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.storage.checkpoints import LEADER_EPOCHS
from kafkawire.sdk.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
    offset_in,
)
from kafkawire.sdk.storage.partition_metadata import PARTITION_METADATA

__all__ = ["OpenedSegments", "PartitionCheckpoints", "open_segments"]

logger = logging.getLogger("kafkawire.broker")

_COPY_SUFFIX = ".copy"
_LEFTOVERS = (_COPY_SUFFIX, DELETED_SUFFIX, TEMPORARY_SUFFIX)

#: Suffixes of files named after an offset, and the names of other files.
_KINDS = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_OTHERS = (LEADER_EPOCHS, PARTITION_METADATA, SYNC_FAILED, TRUNCATION)

#: The maximum number of bytes copied at once.
_CHUNK_BYTES_MAX = 4 * 1024 * 1024


class PartitionCheckpoints(NamedTuple):
    """The checkpoints of a partition.

    Attributes:
        log_start_offset: the base offset of the first segment, if it has to be created.
        recovery_point: everything before this offset is durable.
        may_have_gaps: whether compaction may have left gaps after the recovery point too; gaps before it are always
            possible.
    """

    log_start_offset: int
    recovery_point: int
    may_have_gaps: bool = False


class OpenedSegments(NamedTuple):
    """The segments of a partition.

    Attributes:
        segments: in order of base offset; there is always at least one, and only the last can be appended to.
        truncated_bytes: the number of bytes cut off or deleted.
    """

    segments: list[Segment]
    truncated_bytes: int


def open_segments(
    disk: Disk, folder: str, config: LogConfig, checkpoints: PartitionCheckpoints, *, is_clean: bool
) -> OpenedSegments:
    """Open the segments of a partition, creating the first one if necessary.

    Args:
        disk: holds the files.
        folder: the partition's folder.
        config: configuration of the log.
        checkpoints: see `PartitionCheckpoints`.
        is_clean: whether the last shutdown was clean.

    Raises:
        OSError: the disk failed.
    """
    log_start_offset, recovery_point, may_have_gaps = checkpoints
    names = _without_leftovers(disk, folder)
    present = set(names)
    bases = sorted(base for name in names if (base := offset_in(name, LOG_SUFFIX)) is not None)
    _remove_orphans(disk, folder, names, set(bases))
    bases = _without_deleted(disk, folder, config, bases, log_start_offset)
    if SYNC_FAILED in names:
        last_synced = max((base for base in bases if base <= recovery_point), default=0)
        _write_again(disk, folder, [base for base in bases if base >= last_synced])
    segments: list[Segment] = []
    truncated = 0
    for number, base in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        is_checked = following is not None and (is_clean or following <= recovery_point)
        segment = Segment(disk, folder, base, config, following if is_checked else None)
        reason = _reason_to_delete(segments, segment, may_have_gaps=may_have_gaps, has_cut=truncated > 0)
        if reason:
            truncated += _delete_from(disk, folder, config, bases[number:], reason)
            break
        if file_name(base, TRANSACTION_INDEX_SUFFIX) in present:
            segment.transactions.load()
        if not is_checked:
            truncated += _load_last(segment) if is_clean else segment.recover()
        segments.append(segment)
    if not segments:
        segments.append(Segment.create(disk, folder, log_start_offset, config))
    for segment in segments[:-1]:
        segment.seal()
    end = segments[-1].next_offset
    if end < recovery_point:
        logger.error(
            "%s: the log ends at offset %d, although everything before offset %d was durable; the rest is lost",
            disk.describe(folder),
            end,
            recovery_point,
        )
    if end < log_start_offset:
        # Clients know the start of the log, so earlier offsets must not be assigned again.
        reason = f"the log begins at offset {log_start_offset}"
        truncated += _delete_from(disk, folder, config, [segment.base_offset for segment in segments], reason)
        segments = [Segment.create(disk, folder, log_start_offset, config)]
    return OpenedSegments(segments, truncated)


def _load_last(segment: Segment) -> int:
    """Load the last segment of a log that was closed cleanly; damage at its end is cut off."""
    try:
        return segment.load()
    except DecodeError:
        return segment.recover()


def _reason_to_delete(segments: list[Segment], segment: Segment, *, may_have_gaps: bool, has_cut: bool) -> str:
    """Return why a segment cannot follow earlier ones, or ""."""
    if has_cut:
        return "an earlier segment was cut off"
    if segments and segments[-1].next_offset > segment.base_offset:
        return f"the previous segment extends to offset {segments[-1].next_offset}"
    if segments and segments[-1].next_offset < segment.base_offset and not may_have_gaps:
        return f"the previous segment ends at offset {segments[-1].next_offset}; the next records were never written"
    return ""


def _delete_from(disk: Disk, folder: str, config: LogConfig, bases: list[int], reason: str) -> int:
    deleted = 0
    for base in reversed(bases):
        # Delete from the end, so a crash before the last deletion leaves no gap.
        segment = Segment(disk, folder, base, config)
        deleted += segment.size_bytes
        segment.delete()
    disk.sync_folder(folder)
    logger.warning(
        "%s: deleting segments (%d, with %d bytes) from offset %d on: %s",
        disk.describe(folder),
        len(bases),
        deleted,
        bases[0],
        reason,
    )
    return deleted


def _remove_orphans(disk: Disk, folder: str, names: list[str], bases: set[int]) -> None:
    """Delete indexes that have no segment."""
    for name in names:
        if any(name.endswith(suffix) and offset_in(name, suffix) not in bases for suffix in INDEX_SUFFIXES):
            logger.warning("%s: removing an index without a segment", disk.describe(f"{folder}/{name}"))
            disk.remove(f"{folder}/{name}")


def _without_leftovers(disk: Disk, folder: str) -> list[str]:
    """Remove files left by a crash, and return the remaining names in the folder.

    Unknown files are left alone. (Apache Kafka does not open a log with `x-1.log` in its folder.)
    """
    names = disk.names(folder)
    if settle(disk, folder, names):
        names = disk.names(folder)
    kept = []
    for name in names:
        if not _is_of_log(name):
            logger.warning("%s: leaving an unknown file alone", disk.describe(f"{folder}/{name}"))
        elif name.endswith(_LEFTOVERS):
            disk.remove(f"{folder}/{name}")
        else:
            kept.append(name)
    return kept


def _is_of_log(name: str) -> bool:
    """Return whether a log may have written a file with this name."""
    while name.endswith((*_LEFTOVERS, CLEANED_SUFFIX, SWAP_SUFFIX)):
        name = name.rpartition(".")[0]
    return name in _OTHERS or any(offset_in(name, kind) is not None for kind in _KINDS)


def _without_deleted(disk: Disk, folder: str, config: LogConfig, bases: list[int], log_start_offset: int) -> list[int]:
    """Remove segments before the start of the log, which were due for removal; return the other base offsets."""
    first = max(bisect_right(bases, log_start_offset) - 1, 0)
    for base in bases[:first]:
        segment = Segment(disk, folder, base, config)
        logger.info("%s: removed, since the log begins at offset %d", segment.where, log_start_offset)
        segment.delete()
    return bases[first:]


def _write_again(disk: Disk, folder: str, bases: list[int]) -> None:
    """Rewrite the segments that were not durable when a sync failed, which later syncs would skip."""
    what = "rewriting segments that may not be durable, since a sync failed"
    logger.warning("%s: %s (segments: %d)", disk.describe(folder), what, len(bases))
    for base in bases:
        path = f"{folder}/{file_name(base, LOG_SUFFIX)}"
        original, copy = disk.open(path), disk.open(path + _COPY_SUFFIX, create=True)
        while copy.size_bytes < original.size_bytes:
            chunk = original.read(copy.size_bytes, _CHUNK_BYTES_MAX)
            if not chunk:
                break
            copy.append(chunk)
        copy.sync()
        disk.rename(path + _COPY_SUFFIX, path)
    disk.sync_folder(folder)
    disk.remove(f"{folder}/{SYNC_FAILED}")
