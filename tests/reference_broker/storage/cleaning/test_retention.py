"""Segments are removed by log start, size and age, oldest first, and never past the high watermark.

Method: use logs with four batches of known size and time in each segment.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.cleaning.retention import removable
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

BATCH_BYTES = len(produced(b"v"))

#: A configuration that rolls after every fourth batch.
CONFIG = dataclasses.replace(log_config({"retention.ms": "-1"}), segment_bytes=4 * BATCH_BYTES)


def log_of(records, timestamp=lambda number: NOW_MS + number):
    disk = MemoryDisk()
    disk.make_folder("t-0")
    log = PartitionLog(LogServices(disk), "t-0", CONFIG)
    for number in range(records):
        data = produced(b"v", timestamps=(timestamp(number),))
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    return log


def count(log, now_ms=NOW_MS, start=0, end=None, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    return removable(log.segments, config, start, log.next_offset if end is None else end, now_ms)


def test_nothing_goes_without_a_limit():
    assert count(log_of(12), now_ms=2 * NOW_MS) == 0


@pytest.mark.parametrize(("start", "expected"), [(0, 0), (3, 0), (4, 1), (9, 2), (11, 2), (12, 2)])
def test_by_log_start(start, expected):
    assert count(log_of(12), start=start) == expected
    assert count(log_of(12), start=start, has_retention=False) == expected


@pytest.mark.parametrize(
    ("batches_kept", "expected"),
    [(12, 0), (11, 0), (9, 0), (8, 1), (7, 1), (4, 2), (1, 2), (0, 3)],
)
def test_by_size(batches_kept, expected):
    log = log_of(12)
    assert count(log, retention_bytes=batches_kept * BATCH_BYTES) == expected
    assert count(log, retention_bytes=batches_kept * BATCH_BYTES, has_retention=False) == 0


@pytest.mark.parametrize(("age_ms", "expected"), [(3, 0), (4, 1), (7, 1), (8, 2), (11, 2), (12, 3)])
def test_by_age(age_ms, expected):
    log = log_of(12)
    assert count(log, now_ms=NOW_MS + age_ms, retention_ms=0) == expected
    assert count(log, now_ms=NOW_MS + age_ms + 100, retention_ms=100) == expected
    assert count(log, now_ms=NOW_MS + age_ms, retention_ms=0, has_retention=False) == 0


def test_young_segment_keeps_the_old_ones_after_it():
    log = log_of(12, lambda number: NOW_MS + 1000 if number < 4 else NOW_MS)
    assert count(log, now_ms=NOW_MS + 500, retention_ms=0) == 0


def test_segment_without_timestamps_is_as_old_as_the_next():
    log = log_of(12, lambda number: -1 if number < 4 else NOW_MS + number)
    assert count(log, now_ms=NOW_MS + 7, retention_ms=0) == 0
    assert count(log, now_ms=NOW_MS + 8, retention_ms=0) == 2
    assert count(log_of(12, lambda number: -1), now_ms=NOW_MS + 10**9, retention_ms=0) == 0


@pytest.mark.parametrize(("end", "expected"), [(0, 0), (3, 0), (4, 1), (11, 2), (12, 3)])
def test_never_past_the_high_watermark(end, expected):
    assert count(log_of(12), end=end, retention_bytes=0) == expected
    assert count(log_of(12), end=end, now_ms=NOW_MS + 10**6, retention_ms=0) == expected


def test_empty_log_keeps_its_segment():
    assert count(log_of(0), start=0, now_ms=2 * NOW_MS, retention_ms=0, retention_bytes=0) == 0


def test_limits_add_up():
    """A segment removed by size does not affect the age check of later segments."""
    log = log_of(12)
    assert count(log, now_ms=NOW_MS + 8, retention_ms=0, retention_bytes=8 * BATCH_BYTES, start=4) == 2


def test_sealed_segments_tell_their_age_from_the_file_on_the_disk():
    log = log_of(12)
    assert all(segment.is_stored for segment in list(log.segments)[:-1])
    disk = log._services.disk
    disk.remove("t-0/00000000000000000000.timeindex")
    assert count(log, now_ms=NOW_MS + 4, retention_ms=0) == 1


def test_segments_without_timestamps_are_looked_at_once():
    """For records without timestamps, each check once read, for every segment, all later segments."""
    log = log_of(400, lambda number: -1 if number < 390 else NOW_MS)
    again = PartitionLog(LogServices(log._services.disk), "t-0", CONFIG)
    calls = []
    log._services.disk.plan = lambda call: calls.append(call.path)  # type: ignore[attr-defined]  # a MemoryDisk
    assert count(again, now_ms=NOW_MS + 1, retention_ms=0) == 100
    assert len(calls) < 1500


@pytest.mark.parametrize("is_read", [False, True])
def test_damaged_segment_of_unknown_age_goes_by_the_other_limits(is_read):
    log = log_of(16)
    path = "t-0/00000000000000000004"
    file = log._services.disk.open(f"{path}.log")
    data = bytearray(file.read(0, file.size_bytes))
    data[BATCH_BYTES + 16] ^= 1
    file.truncate(0)
    file.append(data)
    log._services.disk.remove(f"{path}.timeindex")
    again = PartitionLog(LogServices(log._services.disk), "t-0", CONFIG)
    if is_read:
        assert again.segments.read(4, 100, 16, at_least_one=True).records is not None
    assert count(again, start=8) == 2
    assert count(again, retention_bytes=4 * BATCH_BYTES) == 3
    assert count(again, now_ms=NOW_MS + 11, retention_ms=0) == 1, "the segment is as old as the next one"
    assert count(again, now_ms=NOW_MS + 12, retention_ms=0) == 3
    assert count(again, now_ms=NOW_MS + 12, start=8, retention_ms=0) == 3
