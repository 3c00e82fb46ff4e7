"""Walk over the records of a produced batch in Python, as the extension's `scan_records` does."""

from __future__ import annotations

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import RECORD_MIN_BYTES
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.python_batch import parts
from kafkawire.sdk.records.java_integers import int64

__all__ = ["Found", "Times", "is_within", "scan_records"]

#: The current time, and how far before and after it a timestamp may be.
Times = tuple[int, int, int]

#: The highest timestamp, at least -1; whether offsets count from 0; the indexes of refused records.
Found = tuple[int, bool, list[int]]


def scan_records(
    payload: Buffer, header: tuple[int, int | None, int], needs_keys: bool, times: Times | None, limit: int
) -> Found | None:
    """Walk over the records of a produced batch.

    Args:
        payload: the records, decompressed.
        header: the base timestamp, the timestamp that replaces the records' own, if any, and the required number of
            records.
        needs_keys: whether records without a key are refused.
        times: the bounds of timestamps, if any.
        limit: the maximum number of refused records to return.

    Returns:
        The findings; None if the records are malformed.
    """
    base_timestamp, append_time, count = header
    if not 0 < count <= len(payload) // RECORD_MIN_BYTES:
        return None
    max_timestamp, is_consecutive = NO_TIMESTAMP, True
    bad: list[int] = []
    try:
        for index, (_, key, offset, delta, _, _) in enumerate(parts(bytes(payload), count)):
            timestamp = int64(base_timestamp + delta) if append_time is None else append_time
            max_timestamp = max(max_timestamp, timestamp)
            is_consecutive = is_consecutive and offset == index
            is_bad = (needs_keys and key is None) or not is_within(times, timestamp)
            if is_bad and len(bad) < limit:
                bad.append(index)
    except DecodeError:
        return None
    return max_timestamp, is_consecutive, bad


def is_within(times: Times | None, timestamp: int) -> bool:
    """Return whether a timestamp is allowed; differences overflow as Java's do."""
    if times is None or timestamp == NO_TIMESTAMP:
        return True
    now_ms, before_max_ms, after_max_ms = times
    age = int64(now_ms - timestamp)
    return age <= before_max_ms and int64(-age) <= after_max_ms
