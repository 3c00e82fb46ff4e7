"""Truncate a log on disk. A crash at any step leaves either the old log or the truncated one.

    1. `.truncation` in the folder says where the log will begin and end; it is durable before any change
    2. segments and snapshots after the end are removed, the last remaining segment is truncated, and all is synced
    3. the checkpoints of the data directory are written, and `.truncation` is removed

If the file exists when the log is opened, step 2 is repeated; step 3 follows before the first append. Lowering only the
recovery point would be unsafe: after appends and a crash, the content that replaced the truncated records would be
trusted unchecked.

Source: `LocalLog.truncateTo`, `truncateFullyAndStartAt` in Apache Kafka, where a crash may leave a partial result.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.batches import BatchHeader, Window
from kafkawire.reference_broker.storage.checkpoints import write_epochs
from kafkawire.reference_broker.storage.disk.disk import Disk, File, read_file, replace_file
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.stored_batches import PIECE_BYTES
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.survey import Survey
from kafkawire.sdk.storage.checkpoints import LEADER_EPOCHS
from kafkawire.sdk.storage.file_names import INDEX_SUFFIXES, LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name, offset_in

__all__ = [
    "TRUNCATION",
    "Cut",
    "Truncation",
    "begin_truncation",
    "cut_files",
    "end_truncation",
    "pending_truncation",
    "resolve",
]

logger = logging.getLogger("kafkawire.broker")

#: The file that describes a truncation in progress.
TRUNCATION = ".truncation"

#: Two offsets need fewer bytes.
_TEXT_BYTES_MAX = 100


#: If the log is in use, returns the segment with a given base offset; otherwise None.
SegmentOf = Callable[[int], Segment | None]


def _unopened(base_offset: int) -> None:
    """Return None, since the log is not in use."""


class Truncation(NamedTuple):
    """The bounds of a log after a truncation.

    Attributes:
        start_offset: the first readable offset.
        end_offset: no record at or after it remains; if it is not after the start, no records remain at all, and the
            log continues at the start.
    """

    start_offset: int
    end_offset: int

    @property
    def is_complete(self) -> bool:
        """Whether the truncation removes all records."""
        return self.end_offset <= self.start_offset


class Cut(NamedTuple):
    """The end of a log after a truncation.

    Attributes:
        tail: the last segment, which can be appended to.
        end_offset: the end of the log.
    """

    tail: Segment
    end_offset: int


def begin_truncation(disk: Disk, folder: str, truncation: Truncation) -> None:
    """Durably store how the log is to be truncated (see `resolve`).

    Raises:
        OSError: the disk failed.
    """
    replace_file(disk, f"{folder}/{TRUNCATION}", b"%d %d\n" % truncation)


def resolve(disk: Disk, folder: str, truncation: Truncation, segment_of: SegmentOf = _unopened) -> Truncation:
    """Return an equivalent truncation that ends at the start of a batch, and can thus be repeated; change nothing.

    Args:
        disk: holds the files.
        folder: the partition's folder.
        truncation: the requested bounds.
        segment_of: see `cut_files`.

    Raises:
        OSError: the disk failed.
    """
    start_offset, end_offset = truncation
    bases = [base for name in disk.names(folder) if (base := offset_in(name, LOG_SUFFIX)) is not None]
    last = max((base for base in bases if base <= end_offset), default=None)
    if truncation.is_complete or last is None:
        return Truncation(start_offset, start_offset)
    segment = segment_of(last)
    file = disk.open(f"{folder}/{file_name(last)}{LOG_SUFFIX}") if segment is None else segment.file
    batch = _first_from(file, last, end_offset, segment)
    if batch is not None:
        end_offset = min(end_offset, batch.base_offset)
    return Truncation(start_offset, max(start_offset, end_offset))  # drop records before the start if no others remain


def pending_truncation(disk: Disk, folder: str) -> Truncation | None:
    """Return the truncation that a crash interrupted; a damaged file is logged and ignored.

    Raises:
        OSError: the disk failed.
    """
    path = f"{folder}/{TRUNCATION}"
    content = read_file(disk, path, _TEXT_BYTES_MAX)
    if content is None:
        return None
    try:
        start_offset, end_offset = map(int, content.split())
        if start_offset < 0 or end_offset < 0 or not content.endswith(b"\n"):
            raise ValueError
    except ValueError:
        logger.warning("%s: ignoring %.40r, which does not describe a truncation", disk.describe(path), content)
        disk.remove(path)
        return None
    return Truncation(start_offset, end_offset)


def end_truncation(disk: Disk, folder: str) -> None:
    """Forget a durable truncation.

    Raises:
        OSError: the disk failed.
    """
    disk.remove(f"{folder}/{TRUNCATION}")
    disk.sync_folder(folder)


def cut_files(
    disk: Disk,
    folder: str,
    config: LogConfig,
    truncation: Truncation,
    segment_of: SegmentOf = _unopened,
) -> Cut:
    """Durably truncate the files of a log, on any thread. The call may be repeated.

    Args:
        disk: holds the files.
        folder: the partition's folder.
        config: configuration of the log.
        truncation: the new bounds of the log.
        segment_of: see `SegmentOf`. If the log is in use, slices of its files fail from then on, rather than return
            data that is appended later.

    Raises:
        OSError: the disk failed.
    """
    names = disk.names(folder)
    bases = sorted(base for name in names if (base := offset_in(name, LOG_SUFFIX)) is not None)
    left = [] if truncation.is_complete else [base for base in bases if base <= truncation.end_offset]
    end_offset = truncation.start_offset
    if left:
        end_offset = _truncate_segment(disk, folder, left[-1], truncation.end_offset, segment_of(left[-1]))
        if end_offset <= truncation.start_offset:  # only records before the start would remain
            left, end_offset = [], truncation.start_offset
    for base in reversed(bases[len(left) :]):
        Segment(disk, folder, base, config).delete()
    if left:
        tail = Segment(disk, folder, left[-1], config)
    else:
        tail = Segment.create(disk, folder, end_offset, config)
        write_epochs(disk, f"{folder}/{LEADER_EPOCHS}", [], is_durable=True)
    for name in names:
        offset = offset_in(name, SNAPSHOT_SUFFIX)
        if offset is not None and (not left or offset > end_offset):
            disk.remove(f"{folder}/{name}")
    disk.sync_folder(folder)
    cut_bytes = tail.recover()
    if left and (before := segment_of(left[-1])) is not None:
        tail.replace(before)
    # A gap left by compaction may end at that offset.
    tail.next_offset = tail.next_offset if cut_bytes else max(tail.next_offset, end_offset)
    return Cut(tail, tail.next_offset)


def _truncate_segment(disk: Disk, folder: str, base_offset: int, offset: int, segment: Segment | None) -> int:
    """Truncate a segment before the batch with `offset`, or before the next batch; return the end of the log."""
    stem = f"{folder}/{file_name(base_offset)}"
    file = disk.open(stem + LOG_SUFFIX) if segment is None else segment.file
    batch = _first_from(file, base_offset, offset, segment)
    if batch is not None:
        file.truncate(batch.position)
    file.sync()
    for suffix in INDEX_SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(stem + suffix)
    return offset if batch is None else min(offset, batch.base_offset)


def _first_from(file: File, base_offset: int, offset: int, segment: Segment | None) -> BatchHeader | None:
    """Return the header of the first batch that does not end before an offset.

    Return None if there is no such batch, or if it follows damage, where recovery truncates the file.

    Args:
        file: the file of the segment.
        base_offset: the base offset of the segment.
        offset: see above.
        segment: the segment, which has the index, if the log is in use.
    """
    if segment is not None and (position := segment.position_before(offset)):
        with contextlib.suppress(DecodeError):  # the index is wrong
            return _first_at(file, position, offset)
    survey = Survey(base_offset, INT32_MAX)
    position = 0
    while position < file.size_bytes:
        survey.add(file.read(position, PIECE_BYTES), [])
        if survey.next_offset > offset or survey.size_bytes == position:
            break
        position = survey.size_bytes
    with contextlib.suppress(DecodeError):
        return _first_at(file, position, offset)
    return None


def _first_at(file: File, position: int, offset: int) -> BatchHeader | None:
    """Search from a position for the first batch that does not end before an offset; return its header, or None.

    Raises:
        DecodeError: there is no batch at the position, or a later batch is damaged.
    """
    window = Window(file)
    while position < file.size_bytes:
        batch = window.header(position)
        if batch.last_offset >= offset:
            return batch
        position += batch.size_bytes
    return None
