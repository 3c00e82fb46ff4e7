"""Split offsets into ranges for tasks to read: enough of them, none too large, and none much too small.

Source: `KafkaOffsetRangeCalculator` in Apache Spark. There, partitions never share a task, because a task without
Python costs only a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["PartitionRange", "split", "tasks", "together"]

#: With up to this many tasks, each reads one partition or a part of one, as in the connector. If there would be more,
#: small ranges share a task, because a task that runs Python costs Spark at least 50 ms of CPU time.
_TASKS_APART: Final = 1_000

#: The maximum number of offsets in a task that reads several ranges.
_SHARED_OFFSETS_MAX: Final = 100_000


class PartitionRange(NamedTuple):
    """A range of offsets in one partition that a task reads.

    Attributes:
        partition: the partition.
        start: the first offset.
        end: the offset after the last one.
        may_begin_later: whether the query begins with the first existing record, in which case missing records at the
            start are not a loss.
    """

    partition: TopicPartition
    start: int
    end: int
    may_begin_later: bool = False

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start


def split(
    ranges: Iterable[PartitionRange], tasks_min: int | None = None, task_records_max: int | None = None
) -> list[PartitionRange]:
    """Return the offset ranges to read, one per task, omitting empty ranges.

    Args:
        ranges: one range per partition.
        tasks_min: the approximate minimum number of tasks; None for one task per partition.
        task_records_max: the maximum number of offsets per task; None for no limit.
    """
    found = [each for each in ranges if each.size > 0]
    if task_records_max is not None:
        found = [part for each in found for part in _cut(each, -(-each.size // task_records_max))]
    if tasks_min is None or len(found) >= tasks_min:
        return found
    # Small ranges are not split; the remaining tasks are distributed over the large ranges according to their sizes.
    total = sum(each.size for each in found)
    whole = [_parts(each.size, total, tasks_min) == 1 for each in found]
    large = sum(each.size for each, is_whole in zip(found, whole, strict=True) if not is_whole)
    left = max(tasks_min - sum(whole), 1)
    return [
        part
        for each, is_whole in zip(found, whole, strict=True)
        for part in _cut(each, 1 if is_whole else _parts(each.size, large, left))
    ]


def tasks(
    ranges: Iterable[PartitionRange], tasks_min: int | None = None, task_records_max: int | None = None
) -> list[list[PartitionRange]]:
    """Return the ranges for each task: one per task, unless there are thousands. The arguments are those of `split`."""
    found = split(ranges, tasks_min, task_records_max)
    if len(found) <= (enough := max(tasks_min or 0, _TASKS_APART)):
        return [[each] for each in found]
    return together(found, enough, task_records_max, len(found) // enough)


def together(
    ranges: Sequence[PartitionRange],
    tasks_min: int,
    task_records_max: int | None = None,
    task_ranges_max: int | None = None,
) -> list[list[PartitionRange]]:
    """Group consecutive small ranges into tasks, each of which gets no more than its share of all offsets.

    Args:
        ranges: in the order in which they are read.
        tasks_min, task_records_max: see `split`.
        task_ranges_max: the maximum number of ranges per task; None for no limit.
    """
    size_max = min(sum(each.size for each in ranges) // tasks_min, _SHARED_OFFSETS_MAX)
    if task_records_max is not None:
        size_max = min(size_max, task_records_max)
    found: list[list[PartitionRange]] = []
    size = 0
    for each in ranges:
        size += each.size
        if found and size <= size_max and len(found[-1]) != task_ranges_max:
            found[-1].append(each)
        else:
            found.append([each])
            size = each.size
    return found


def _parts(size: int, total: int, tasks: int) -> int:
    """Return the number of parts into which to split a range: its share of the tasks."""
    return max((2 * size * tasks + total) // (2 * total), 1)


def _cut(whole: PartitionRange, parts: int) -> Iterator[PartitionRange]:
    """Split a range into equal parts; any remainder goes to the last ones."""
    start = whole.start
    for number in range(parts):
        end = start + (whole.end - start) // (parts - number)
        if end > start:
            yield whole._replace(start=start, end=end)
        start = end
