"""Load the state of a log from its files, at startup and after a truncation.

Source: `LogLoader`, `UnifiedLog.rebuildProducerState` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs, load_epochs, load_told_epochs
from kafkawire.reference_broker.storage.log.recovery import PartitionCheckpoints, open_segments
from kafkawire.reference_broker.storage.log.truncation import (
    Truncation,
    begin_truncation,
    cut_files,
    pending_truncation,
    resolve,
)
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots, load_producers
from kafkawire.reference_broker.storage.producers.producers import BATCHES_KEPT, CompletedTransaction, Producers
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.segments.stored_batches import epoch_starts

__all__ = ["CheckpointedLog", "OpenedLog", "TruncatedLog", "load_log_producers", "open_log", "truncate_log"]

#: How many bytes before the last two segments are searched for batches that a producer may resend after a crash.
_RECALLED_BYTES = 64 * 1024 * 1024


class CheckpointedLog(NamedTuple):
    """The facts known about a log before its files are read.

    Attributes:
        is_clean: whether the last shutdown was clean; if not, every segment from `recovery_point` on is checked.
        log_start_offset: the start offset in the checkpoint; 0 for a new log.
        recovery_point: everything before this offset is on disk, or None if unknown.
        last_epoch: see `load_epochs`.
        high_watermark: the checkpointed high watermark if the log is one of several replicas, in which case the
            controller assigns leader epochs and the owner decides what is committed; None for the only replica.
    """

    is_clean: bool
    log_start_offset: int
    recovery_point: int | None
    last_epoch: int
    high_watermark: int | None


class OpenedLog(NamedTuple):
    """The state of a log.

    Attributes:
        segments: its segments.
        log_start_offset: the first readable offset.
        recovery_point: everything before this offset is on disk.
        may_have_gaps: whether compaction may have left gaps in the offsets after the recovery point.
        epochs: its leader epochs.
        producers: its producers.
        truncated_bytes: the number of bytes that recovery cut off.
        is_truncated: whether an interrupted truncation has been completed.
    """

    segments: Segments
    log_start_offset: int
    recovery_point: int
    may_have_gaps: bool
    epochs: LeaderEpochs
    producers: Producers
    truncated_bytes: int
    is_truncated: bool


def open_log(disk: Disk, folder: str, config: LogConfig, snapshots: Snapshots, known: CheckpointedLog) -> OpenedLog:
    """Open a log, recovering it after a crash.

    Args:
        disk: holds the files.
        folder: the partition's folder.
        config: configuration of the log.
        snapshots: snapshots of its producers.
        known: see `CheckpointedLog`.

    Raises:
        OSError: the disk failed.
    """
    is_clean, log_start_offset, known_point, last_epoch, high_watermark = known
    recovery_point = known_point or 0
    truncation = pending_truncation(disk, folder)
    if truncation is not None:
        is_clean, start_offset = False, truncation.start_offset
        # The start may have moved since the truncation was decided.
        log_start_offset = start_offset if truncation.is_complete else max(start_offset, log_start_offset)
        recovery_point = min(recovery_point, cut_files(disk, folder, config, truncation).end_offset)
    # Its present configuration does not tell whether the log has ever been compacted.
    checkpoints = PartitionCheckpoints(log_start_offset, recovery_point, may_have_gaps=known_point is None)
    opened, truncated_bytes = open_segments(disk, folder, config, checkpoints, is_clean=is_clean)
    segments = Segments(opened)
    end_offset = segments.last.next_offset
    log_start_offset = min(max(log_start_offset, segments.first.base_offset), end_offset)

    def starts(from_offset: int) -> Iterable[Iterable[tuple[int, int]]]:
        found = (segment for segment in segments if segment.base_offset >= from_offset and segment.size_bytes)
        return (epoch_starts(each.file, each.base_offset, each.headers) for each in found)

    if high_watermark is not None:
        checked_from = end_offset if is_clean else segments.since(recovery_point)[0].base_offset
        from_start = _epochs_of(segments.since(log_start_offset))
        epochs = load_told_epochs(disk, folder, log_start_offset, end_offset, checked_from, starts, from_start)
    else:
        is_cut = not is_clean or truncated_bytes > 0 or end_offset < recovery_point
        epochs = load_epochs(
            disk, folder, log_start_offset, end_offset, starts(0), last_epoch=last_epoch, is_cut=is_cut
        )
    return OpenedLog(
        segments,
        log_start_offset,
        # Records before the recovery point are not checked again, so no index may be missing there either.
        min(max(recovery_point, log_start_offset), end_offset),
        checkpoints.may_have_gaps,
        epochs,
        load_log_producers(snapshots, segments, is_clean=is_clean, high_watermark=high_watermark),
        truncated_bytes,
        truncation is not None,
    )


def _epochs_of(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Yield the leader epoch and the base offset of each batch, reading one batch at a time."""
    for segment in segments:
        for header in segment.headers(0):
            yield header.leader_epoch, header.base_offset


def load_log_producers(
    snapshots: Snapshots, segments: Segments, *, is_clean: bool, high_watermark: int | None
) -> Producers:
    """Return the producers of a log, and restore missing entries in its indexes of aborted transactions.

    Args:
        snapshots: snapshots of the log.
        segments: its segments.
        is_clean: see `load_producers`.
        high_watermark: see `committed_to` of `load_producers`.

    Raises:
        OSError: the disk failed.
    """
    incomplete = [segment for segment in segments if not segment.transactions.is_complete]

    def aborted(ended: CompletedTransaction) -> None:
        segment = segments.since(ended.last_offset)[0]
        if segment in incomplete:
            segment.transactions.append(ended)

    producers = load_producers(
        snapshots,
        segments.base_offsets,
        segments.last.next_offset,
        segments.producer_batches,
        is_clean=is_clean,
        aborted=aborted,
        aborted_from=incomplete[0].base_offset if incomplete else None,
        recalled_from=None if is_clean else segments.recent(BATCHES_KEPT + 1, _RECALLED_BYTES).base_offset,
        committed_to=high_watermark,
        has_markers=segments.has_markers,
    )
    for segment in incomplete:
        segment.transactions.is_complete = True
        if segment.is_stored:
            segment.transactions.store()
    return producers


class TruncatedLog(NamedTuple):
    """The state of a log after a truncation.

    Attributes:
        segments: its segments.
        end_offset: its end.
        producers: its producers.
    """

    segments: Segments
    end_offset: int
    producers: Producers


def truncate_log(
    disk: Disk,
    folder: str,
    config: LogConfig,
    snapshots: Snapshots,
    segments: Segments,
    high_watermark: int,
    truncation: Truncation,
) -> TruncatedLog:
    """Durably truncate a log in use, on any thread, and load its new end as if it were opened.

    Args:
        disk: holds the files.
        folder: the partition's folder.
        config: configuration of the log.
        snapshots: snapshots of its producers.
        segments: its segments before the truncation.
        high_watermark: its high watermark before the truncation.
        truncation: the truncation; until `end_truncation` is called, opening the log would complete it.

    Raises:
        OSError: the disk failed, or file descriptors ran out, in which case the call may be repeated.
    """
    known = {segment.base_offset: segment for segment in segments}

    # A second attempt would not find the batch that the first one has removed.
    decided = pending_truncation(disk, folder)
    if decided is None:
        begin_truncation(disk, folder, decided := resolve(disk, folder, truncation, known.get))
    truncation = decided
    cut = cut_files(disk, folder, config, truncation, known.get)
    kept = [segment for segment in segments if segment.base_offset < cut.tail.base_offset]
    is_empty = cut.end_offset <= truncation.start_offset
    left = Segments([cut.tail] if is_empty else [*kept, cut.tail])
    return TruncatedLog(
        left, cut.end_offset, load_log_producers(snapshots, left, is_clean=False, high_watermark=high_watermark)
    )
