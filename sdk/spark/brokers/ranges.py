"""What tasks read: ranges of offsets, cut so that there are enough tasks, and none is too large or much too small.

Source: `KafkaOffsetRangeCalculator` in Apache Spark, where no two partitions share a task: without Python it costs
a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["PartitionRange", "split", "tasks", "together"]

#: So many tasks read a partition each, or a part of one, as with the connector. Beyond, small ranges share a task:
#: Spark needs 50 ms of CPU for one that runs Python, however little it reads.
_TASKS_APART: Final = 1_000

#: Most offsets that one task reads of several ranges.
_SHARED_OFFSETS_MAX: Final = 100_000


class PartitionRange(NamedTuple):
    """What a task reads of a partition.

    Attributes:
        partition: which one.
        start: the first offset.
        end: after the last one.
        may_begin_later: whether the query begins with whatever is there, so that it is no loss if records at the start
            are gone.
    """

    partition: TopicPartition
    start: int
    end: int
    may_begin_later: bool = False

    @property
    def size(self) -> int:
        """How many offsets it has; there may be fewer records."""
        return self.end - self.start


def split(
    ranges: Iterable[PartitionRange], tasks_min: int | None = None, task_records_max: int | None = None
) -> list[PartitionRange]:
    """Return what each task reads, leaving out what is empty.

    Args:
        ranges: one range of each partition.
        tasks_min: about so many tasks at least; None for one for each partition.
        task_records_max: most offsets of a task; None for no limit.
    """
    found = [each for each in ranges if each.size > 0]
    if task_records_max is not None:
        found = [part for each in found for part in _cut(each, -(-each.size // task_records_max))]
    if tasks_min is None or len(found) >= tasks_min:
        return found
    # Small ranges stay whole, and what is left of the tasks is for the large ones, by their sizes.
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
    """Return the ranges of each task, one unless there are thousands; the arguments are those of `split`."""
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
    """Put small ranges that follow each other into one task, as long as it has no more than its share of all offsets.

    Args:
        ranges: in the order in which they are read.
        tasks_min, task_records_max: see `split`.
        task_ranges_max: most ranges of a task; None for no limit.
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
    """Return into how many parts a range is cut, its share of the tasks."""
    return max((2 * size * tasks + total) // (2 * total), 1)


def _cut(whole: PartitionRange, parts: int) -> Iterator[PartitionRange]:
    """Cut a range into parts of the same size; the last ones have what is left over."""
    start = whole.start
    for number in range(parts):
        end = start + (whole.end - start) // (parts - number)
        if end > start:
            yield whole._replace(start=start, end=end)
        start = end
