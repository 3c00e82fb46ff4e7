"""Retention: segments that clients have deleted, or that exceed `retention.bytes` or `retention.ms`.

The highest timestamp of a segment determines its age. A segment without timestamps is considered as old as the next
one, as is a damaged segment without a time index.

Source: `UnifiedLog.deleteOldSegments` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, repeat, takewhile

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP

__all__ = ["removable"]


def removable(segments: Segments, config: LogConfig, log_start_offset: int, end_offset: int, now_ms: int) -> int:
    """Return the number of removable segments at the start of a log, on any thread.

    If all segments are removable, the log has to be rolled first.

    Args:
        segments: segments of the log.
        config: configuration of the log.
        log_start_offset: the first readable offset.
        end_offset: the high watermark; records at or after it are kept.
        now_ms: the current time.

    Raises:
        OSError: the disk failed.
    """
    known = list(segments)
    ends = [following.base_offset for _, following in pairwise(known)] + [segments.last.next_offset]
    allowed = sum(end <= end_offset for end in ends) - (not segments.last.size_bytes)

    count = min(len(known) - len(segments.since(log_start_offset)), allowed)
    if not config.has_retention:
        return count
    if config.retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in known[count:]) - config.retention_bytes
        while count < allowed and (excess := excess - known[count].size_bytes) >= 0:
            count += 1
    if config.retention_ms >= 0:
        known_times = islice(_timestamps(known[count:], now_ms), allowed - count)
        count += sum(1 for _ in takewhile(lambda timestamp: now_ms - timestamp > config.retention_ms, known_times))
    return count


def _timestamps(segments: Sequence[Segment], now_ms: int) -> Iterator[int]:
    """Yield each segment's highest timestamp, or the next segment's if it has none."""
    without = 0
    for segment in segments:
        without += 1
        timestamp = NO_TIMESTAMP
        with contextlib.suppress(DecodeError):
            timestamp = segment.highest_timestamp()
        if timestamp != NO_TIMESTAMP:
            yield from repeat(timestamp, without)
            without = 0
    yield from repeat(now_ms, without)
