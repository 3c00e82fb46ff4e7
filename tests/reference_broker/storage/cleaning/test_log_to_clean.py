"""Logs are compacted from the end of the last compaction to the first uncleanable offset if they are dirty enough.

Method: use logs with four batches of known size and time in each segment.
"""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.cleaning.log_to_clean import CompactionBounds, LogToClean, grouped, log_to_clean
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

BATCH_BYTES = len(produced(b"v"))
SEGMENT_BYTES = 4 * BATCH_BYTES
CONFIG = dataclasses.replace(log_config({"cleanup.policy": "compact"}), segment_bytes=SEGMENT_BYTES)


@pytest.fixture
def log():
    """Return a log with segments at 0, 4, 8, 12 and 16, the last with two batches."""
    disk = MemoryDisk()
    disk.make_folder("t-0")
    log = PartitionLog(LogServices(disk), "t-0", CONFIG)
    for number in range(18):
        data = produced(b"v", timestamps=(NOW_MS + number,))
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    return log


def to_clean(log, cleaned_to=0, start=0, stable=18, durable=16, now_ms=NOW_MS + 100, **changes):
    bounds = CompactionBounds(cleaned_to, start, stable, durable)
    return log_to_clean(log.segments, dataclasses.replace(CONFIG, **changes), bounds, now_ms)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, LogToClean(0, 16, 4 * SEGMENT_BYTES, 0, False)),
        ({"cleaned_to": 8}, LogToClean(8, 16, 2 * SEGMENT_BYTES, 2 * SEGMENT_BYTES, False)),
        ({"cleaned_to": 10}, LogToClean(10, 16, 2 * SEGMENT_BYTES, 3 * SEGMENT_BYTES, False)),
        ({"cleaned_to": 16}, LogToClean(16, 16, 0, 4 * SEGMENT_BYTES, False)),
        ({"cleaned_to": 19}, LogToClean(0, 16, 4 * SEGMENT_BYTES, 0, False)),
        ({"cleaned_to": 3, "start": 5}, LogToClean(5, 16, 3 * SEGMENT_BYTES, 2 * SEGMENT_BYTES, False)),
        ({"stable": 11}, LogToClean(0, 8, 2 * SEGMENT_BYTES, 0, False)),
        ({"stable": 12}, LogToClean(0, 12, 3 * SEGMENT_BYTES, 0, False)),
        ({"stable": 0}, LogToClean(0, 0, 0, 0, False)),
        ({"durable": 4}, LogToClean(0, 4, SEGMENT_BYTES, 0, False)),
        ({"stable": 9, "cleaned_to": 12}, LogToClean(12, 12, 0, 3 * SEGMENT_BYTES, False)),
    ],
)
def test_bounds(log, bounds, expected):
    assert to_clean(log, **bounds) == expected


@pytest.mark.parametrize(("lag_ms", "end"), [(1, 16), (85, 16), (86, 12), (93, 8), (101, 0)])
def test_young_records_are_left_alone(log, lag_ms, end):
    assert to_clean(log, min_compaction_lag_ms=lag_ms).end_offset == end


@pytest.mark.parametrize(
    ("lag_ms", "cleaned_to", "is_overdue"), [(100, 0, False), (99, 0, True), (99, 4, False), (95, 4, True)]
)
def test_overdue(log, lag_ms, cleaned_to, is_overdue):
    assert to_clean(log, max_compaction_lag_ms=lag_ms, cleaned_to=cleaned_to).is_overdue == is_overdue


def test_segments_that_are_not_stored_are_left_alone(log):
    list(log.segments)[1].is_stored = False
    assert to_clean(log).end_offset == 4


@pytest.mark.parametrize(
    ("found", "ratio", "is_worth_it"),
    [
        (LogToClean(0, 9, 50, 50, False), 0.5, False),
        (LogToClean(0, 9, 51, 50, False), 0.5, True),
        (LogToClean(0, 9, 1, 50, True), 0.5, True),
        (LogToClean(0, 9, 0, 50, True), 0.5, False),
        (LogToClean(0, 9, 0, 0, False), 0.0, False),
        (LogToClean(0, 9, 1, 50, False), 0.0, True),
        (LogToClean(0, 9, 50, 0, False), float("nan"), False),
    ],
)
def test_worth_it(found, ratio, is_worth_it):
    assert found.is_worth_it(dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=ratio)) == is_worth_it


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [[0], [4], [8], [12]]),
        ({"segment_bytes": 2 * SEGMENT_BYTES}, [[0, 4], [8, 12]]),
        ({"segment_bytes": 3 * SEGMENT_BYTES}, [[0, 4, 8], [12]]),
        ({"segment_bytes": 100 * SEGMENT_BYTES}, [[0, 4, 8, 12]]),
        ({"segment_bytes": 100 * SEGMENT_BYTES, "segment_index_bytes": 35}, [[0, 4], [8, 12]]),
    ],
)
def test_groups(log, changes, expected):
    groups = grouped(list(log.segments)[:-1], dataclasses.replace(CONFIG, **changes), 16)
    assert [[segment.base_offset for segment in group] for group in groups] == expected


def test_groups_span_no_more_offsets_than_an_index_can_say(log):
    config = dataclasses.replace(CONFIG, segment_bytes=100 * SEGMENT_BYTES)
    segments = list(log.segments)[:-1]
    groups = grouped(segments, config, 2**31)
    assert [len(group) for group in groups] == [4]
    assert [len(group) for group in grouped(segments, config, 2**31 + 1)] == [3, 1]


@pytest.mark.parametrize(
    ("sizes", "limits", "count"),
    [
        ((10, 8, 0), (20, 16), 1),
        ((10, 8, 0), (20, 15), 2),
        ((10, 0, 12), (20, 24), 1),
        ((10, 0, 12), (20, 23), 2),
        ((10, 8, 12), (19, 24), 2),
    ],
)
def test_groups_may_fill_a_segment_and_its_indexes(sizes, limits, count):
    size, index, time_index = sizes
    segments: list[Any] = [
        SimpleNamespace(base_offset=offset, size_bytes=size, index_sizes=lambda: (index, time_index))
        for offset in (0, 4)
    ]
    config = dataclasses.replace(CONFIG, segment_bytes=limits[0], segment_index_bytes=limits[1])
    assert len(grouped(segments, config, 8)) == count
