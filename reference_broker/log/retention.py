"""Which segments at the start of a log may go: deleted by a client, or beyond `retention.bytes` or `retention.ms`.

The age of a segment is that of its highest timestamp; one without timestamps is as old as the one after it.

Source: `UnifiedLog.deleteOldSegments` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from kafkawire.reference_broker.log.config import LogConfig
from kafkawire.reference_broker.log.segments import Segments
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP

__all__ = ["removable"]


def removable(segments: Segments, config: LogConfig, log_start_offset: int, end_offset: int, now_ms: int) -> int:
    """Return how many segments at the start of a log may go, on any thread.

    If all may go, the log has to be rolled first.

    Args:
        segments: of the log.
        config: of the log.
        log_start_offset: the first readable offset.
        end_offset: the high watermark; nothing at or after it goes.
        now_ms: the current time.

    Raises:
        DecodeError: a segment without a time index is damaged.
        OSError: the disk failed.
    """
    known = list(segments)
    ends = [following.base_offset for _, following in pairwise(known)] + [segments.last.next_offset]
    allowed = sum(end <= end_offset for end in ends) - (not segments.last.size_bytes)

    def count_while(count: int, may_go: Callable[[int], bool]) -> int:
        while count < allowed and may_go(count):
            count += 1
        return count

    count = min(len(known) - len(segments.since(log_start_offset)), allowed)
    if not config.has_retention:
        return count
    excess = sum(segment.size_bytes for segment in known[count:]) - config.retention_bytes

    def is_excess(number: int) -> bool:
        nonlocal excess
        excess -= known[number].size_bytes
        return excess >= 0

    def is_old(number: int) -> bool:
        timestamps = (segment.highest_timestamp() for segment in known[number:])
        known_times = (timestamp for timestamp in timestamps if timestamp != NO_TIMESTAMP)
        return now_ms - next(known_times, now_ms) > config.retention_ms

    if config.retention_bytes >= 0:
        count = count_while(count, is_excess)
    if config.retention_ms >= 0:
        count = count_while(count, is_old)
    return count
