"""The dirty part of a log: its size, where its compaction must stop, and which segments are merged.

Source: `LogCleanerManager.cleanableOffsets`, `LogToClean`, `Cleaner.groupSegmentsBySize` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import NEVER_MS, LogConfig
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.sdk.records.java_integers import INT32_MAX

__all__ = ["CompactionBounds", "LogToClean", "grouped", "log_to_clean"]


class CompactionBounds(NamedTuple):
    """The offsets of a log that bound compaction.

    Attributes:
        cleaned_to: everything before this offset has been compacted.
        log_start_offset: the first readable offset.
        last_stable_offset: compaction stops before it.
        durable_to: compaction stops before it, since a restart would treat gaps after it as damage.
    """

    cleaned_to: int
    log_start_offset: int
    last_stable_offset: int
    durable_to: int


class LogToClean(NamedTuple):
    """The compactable part of a log.

    Attributes:
        first_offset: the first uncompacted offset.
        end_offset: where compaction ends: the base offset of a segment.
        cleanable_bytes: size of the whole segments between these two offsets.
        clean_bytes: size of the segments before `first_offset`.
        is_overdue: whether some records have been waiting for longer than the topic allows.
    """

    first_offset: int
    end_offset: int
    cleanable_bytes: int
    clean_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The cleanable fraction of the log."""
        return self.cleanable_bytes / ((self.clean_bytes + self.cleanable_bytes) or 1)

    def is_worth_it(self, config: LogConfig) -> bool:
        """Return whether the log should be compacted now."""
        return (self.is_overdue and self.cleanable_bytes > 0) or self.ratio > config.min_cleanable_dirty_ratio


def log_to_clean(segments: Segments, config: LogConfig, bounds: CompactionBounds, now_ms: int) -> LogToClean:
    """Return the compactable part of a log; may run on any thread.

    Args:
        segments: segments of the log.
        config: configuration of the log.
        bounds: see `CompactionBounds`.
        now_ms: the current time.

    Raises:
        DecodeError: a batch is damaged.
        OSError: the disk failed.
    """
    first = bounds.cleaned_to
    if not bounds.log_start_offset <= first <= segments.last.next_offset:
        first = bounds.log_start_offset
    inactive = list(segments)[:-1]
    dirty = [segment for segment in segments.since(first) if segment is not segments.last]
    limits = [bounds.last_stable_offset, bounds.durable_to, segments.last.base_offset]
    limits += [segment.base_offset for segment in inactive if not segment.is_stored]
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        limits += [segment.base_offset for segment in dirty if segment.highest_timestamp() > youngest_ms]
    end = max(first, min(limits))
    # Compaction does not touch the segment that contains that offset.
    end = next((segment.base_offset for segment in segments.since(end)), segments.last.base_offset)
    begin = min(first, end)
    is_overdue = config.max_compaction_lag_ms < NEVER_MS and any(
        0 < timestamp < now_ms - config.max_compaction_lag_ms for timestamp in map(_first_timestamp, dirty)
    )
    return LogToClean(
        first,
        end,
        sum(segment.size_bytes for segment in segments.since(begin) if segment.base_offset < end),
        sum(segment.size_bytes for segment in segments if segment.base_offset < first),
        is_overdue,
    )


def _first_timestamp(segment: Segment) -> int:
    return next((batch.max_timestamp for batch in segment.headers(0)), 0)


def grouped(segments: Sequence[Segment], config: LogConfig, end_offset: int) -> list[list[Segment]]:
    """Return the segments in groups, each of which can become one segment; may run on any thread.

    Args:
        segments: the segments to compact, in order.
        config: configuration of the log.
        end_offset: the end of the last segment.

    Raises:
        OSError: the disk failed.
    """
    ends = [following.base_offset for _, following in pairwise(segments)] + [end_offset]
    groups: list[list[Segment]] = []
    size = index_size = time_index_size = 0
    for segment, end in zip(segments, ends, strict=True):
        more_index, more_time_index = segment.index_sizes()
        fits = (
            bool(groups)
            and size + segment.size_bytes <= config.segment_bytes
            and index_size + more_index <= config.segment_index_bytes
            and time_index_size + more_time_index <= config.segment_index_bytes
            and (not segment.size_bytes or end - 1 - groups[-1][0].base_offset <= INT32_MAX)
        )
        if not fits:
            groups.append([])
            size = index_size = time_index_size = 0
        groups[-1].append(segment)
        size += segment.size_bytes
        index_size += more_index
        time_index_size += more_time_index
    return groups
