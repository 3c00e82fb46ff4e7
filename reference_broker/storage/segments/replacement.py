"""Replace segments with a compacted one. A crash leaves either the old segments or the new one.

    1. the files of the new segment are written as `.cleaned`, and synced
    2. they are renamed to `.swap`, the `.log` file last: from then on the new segment is in effect; each further
       segment that it replaces has an empty `.log.swap`, since the new segment may end before it
    3. the old files are renamed to `.deleted`, and the new files lose their suffix, the `.log` file first

A startup undoes a replacement interrupted before the end of step 2, and completes a later one.

Source: `LocalLog.replaceSegments`, `LogLoader` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.sdk.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    file_name,
    offset_in,
)

__all__ = ["commit", "complete", "discard", "prepare", "settle"]

logger = logging.getLogger("kafkawire.broker")


def prepare(disk: Disk, folder: str, base_offset: int, others: Sequence[int]) -> None:
    """Perform the steps that can be undone, before a rewritten segment takes effect.

    Args:
        disk: holds the partition.
        folder: folder of the partition.
        base_offset: base offset of the new segment and of the first segment that it replaces.
        others: base offsets of the other segments that it replaces.

    Raises:
        OSError: the disk failed; `discard` undoes the steps.
    """
    for other in others:
        disk.open(_stem(folder, other) + LOG_SUFFIX + SWAP_SUFFIX, create=True)
    stem = _stem(folder, base_offset)
    for suffix in INDEX_SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            disk.rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)
    disk.sync_folder(folder)


def commit(disk: Disk, folder: str, base_offset: int) -> None:
    """Put a prepared segment into effect.

    Args:
        disk: holds the partition.
        folder: folder of the partition.
        base_offset: base offset of the new segment.

    Raises:
        OSError: the disk failed.
    """
    stem = _stem(folder, base_offset)
    disk.rename(stem + LOG_SUFFIX + CLEANED_SUFFIX, stem + LOG_SUFFIX + SWAP_SUFFIX)
    disk.sync_folder(folder)


def complete(disk: Disk, folder: str) -> list[str]:
    """Give the files of a segment in effect their final names; return the files to remove later.

    Raises:
        OSError: the disk failed.
    """
    swapped = [name.removesuffix(SWAP_SUFFIX) for name in _written(disk.names(folder), SWAP_SUFFIX)]
    logs = [name.removesuffix(LOG_SUFFIX) for name in swapped if name.endswith(LOG_SUFFIX)]
    indexes = [name for name in swapped if not name.endswith(LOG_SUFFIX)]
    new = {stem for stem in logs if _is_new(disk, f"{folder}/{stem}", stem, indexes)}
    retired = []
    for stem in sorted(logs, reverse=True):  # the new segment has the lowest offset, so it is last
        path = f"{folder}/{stem}"
        if not any(each <= stem for each in new):
            # No new file replaces this segment.
            stray = path + LOG_SUFFIX + SWAP_SUFFIX
            logger.warning("%s: removing an empty file that belongs to no compaction", disk.describe(stray))
            disk.remove(stray)
            continue
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            with contextlib.suppress(FileNotFoundError):
                disk.rename(path + suffix, path + suffix + DELETED_SUFFIX)
                retired.append(path + suffix + DELETED_SUFFIX)
        if stem in new:
            disk.rename(path + LOG_SUFFIX + SWAP_SUFFIX, path + LOG_SUFFIX)
        else:
            disk.remove(path + LOG_SUFFIX + SWAP_SUFFIX)
    for name in indexes:
        disk.rename(f"{folder}/{name}{SWAP_SUFFIX}", f"{folder}/{name}")
    disk.sync_folder(folder)
    return retired


def discard(disk: Disk, folder: str) -> None:
    """Remove the files of a segment that is not in effect; its `.log` file, which marks it, is removed last.

    Raises:
        OSError: the disk failed.
    """
    names = disk.names(folder)
    written = [*_written(names, CLEANED_SUFFIX), *_written(names, SWAP_SUFFIX)]
    for name in sorted(written, key=lambda name: name.endswith(LOG_SUFFIX + CLEANED_SUFFIX)):
        disk.remove(f"{folder}/{name}")


def settle(disk: Disk, folder: str, names: Sequence[str]) -> bool:
    """Undo or complete a replacement interrupted by a crash; return whether there was one.

    Args:
        disk: holds the partition.
        folder: folder of the partition.
        names: the names in the folder.

    Raises:
        OSError: the disk failed.
    """
    if cleaned := _written(names, CLEANED_SUFFIX):
        logger.info("%s: undoing an interrupted compaction, and removing %s", disk.describe(folder), ", ".join(cleaned))
        discard(disk, folder)
    elif swapped := _written(names, SWAP_SUFFIX):
        logger.info("%s: completing an interrupted compaction with %s", disk.describe(folder), ", ".join(swapped))
        complete(disk, folder)
    else:
        return False
    return True


def _written(names: Sequence[str], suffix: str) -> list[str]:
    """Return the names of a new segment's files."""
    kinds = (LOG_SUFFIX, *INDEX_SUFFIXES)
    found = [name for name in names if name.endswith(suffix)]
    return [name for name in found if any(offset_in(name, kind + suffix) is not None for kind in kinds)]


def _is_new(disk: Disk, path: str, stem: str, indexes: Sequence[str]) -> bool:
    """Return whether this is the new segment, rather than the marker of a replaced one."""
    return any(name.startswith(stem) for name in indexes) or disk.size_of(path + LOG_SUFFIX + SWAP_SUFFIX) > 0


def _stem(folder: str, base_offset: int) -> str:
    return f"{folder}/{file_name(base_offset)}"
