"""Tasks cover every range exactly once, and have approximately the configured sizes and numbers."""

from __future__ import annotations

import pytest

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.brokers.ranges import PartitionRange, split, tasks, together

A, B, C = (TopicPartition(topic, 0) for topic in "abc")


@pytest.mark.parametrize(
    ("sizes", "tasks_min", "task_records_max", "expected"),
    [
        ({A: 5}, None, None, [5]),
        ({A: 5, B: 0, C: -3}, None, None, [5]),
        ({A: 5, B: 5}, 2, None, [5, 5]),
        ({A: 5, B: 5}, 1, None, [5, 5]),
        ({A: 10}, 3, None, [3, 3, 4]),
        ({A: 2}, 5, None, [1, 1]),
        ({A: 100, B: 100, C: 1}, 6, None, [33, 33, 34, 33, 33, 34, 1]),  # approximately this many
        ({A: 1, B: 100, C: 300}, 10, None, [1, 50, 50, 42, 43, 43, 43, 43, 43, 43]),
        ({A: 10}, None, 4, [3, 3, 4]),
        ({A: 10, B: 3}, None, 5, [5, 5, 3]),
        ({A: 10, B: 3}, 2, 5, [5, 5, 3]),
        ({A: 10}, 4, 5, [2, 3, 2, 3]),
        ({A: 2**62}, 2, None, [2**61, 2**61]),
        ({}, 5, 5, []),
    ],
)
def test_sizes(
    sizes: dict[TopicPartition, int], tasks_min: int | None, task_records_max: int | None, expected: list[int]
) -> None:
    ranges = [PartitionRange(partition, 7, 7 + size, True) for partition, size in sizes.items()]
    found = split(ranges, tasks_min, task_records_max)
    assert [each.size for each in found] == expected
    assert all(each.may_begin_later for each in found)
    for whole in ranges:
        reached = whole.start
        for part in (each for each in found if each.partition == whole.partition):
            assert part.start == reached
            reached = part.end
        assert reached == max(whole.start, whole.end)


def _of_sizes(sizes: list[int]) -> list[PartitionRange]:
    return [PartitionRange(TopicPartition("t", number), 7, 7 + size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "tasks_min", "expected"),
    [
        ([], 4, []),
        ([10] * 7, 1, [[10] * 7]),
        ([10] * 8, 4, [[10, 10]] * 4),
        ([10] * 9, 4, [[10, 10]] * 4 + [[10]]),
        # A large range gets its own task, and small ranges on both sides of it are not joined.
        ([1, 2, 90, 3, 4], 2, [[1, 2], [90], [3, 4]]),
        ([60_000, 40_000, 1], 1, [[60_000, 40_000], [1]]),
        ([500_000, 500_000], 1, [[500_000], [500_000]]),
    ],
)
def test_small_ranges_share_a_task(sizes: list[int], tasks_min: int, expected: list[list[int]]) -> None:
    ranges = _of_sizes(sizes)
    found = together(ranges, tasks_min)
    assert [[each.size for each in task] for task in found] == expected
    assert [each for task in found for each in task] == ranges


@pytest.mark.parametrize(
    ("sizes", "tasks_min", "task_records_max", "expected"),
    [
        ([5] * 1_000, None, None, [1] * 1_000),  # as in the connector
        ([5] * 1_001, None, None, [1] * 1_001),  # none is small compared with the others
        ([5] * 10_000, None, None, [10] * 1_000),
        ([5] * 10_000, 5, None, [10] * 1_000),
        ([5] * 10_000, 5_000, None, [2] * 5_000),
        ([5] * 10_000, None, 15, [3] * 3_333 + [1]),
        ([99_000, *[1] * 1_000], None, None, [1] * 1_001),  # the requested number, however small the tasks are
        ([10**9, *[1] * 5_000], None, None, [1, *[5] * 1_000]),
        ([10**9, *[1] * 5_000], 2_000, None, [1, *[2] * 2_500]),
        ([5, 0, 5], None, None, [1, 1]),
    ],
)
def test_thousands_of_ranges_share_tasks(
    sizes: list[int], tasks_min: int | None, task_records_max: int | None, expected: list[int]
) -> None:
    ranges = _of_sizes(sizes)
    found = tasks(ranges, tasks_min, task_records_max)
    assert [len(task) for task in found] == expected
    assert [each for task in found for each in task] == [each for each in ranges if each.size]
