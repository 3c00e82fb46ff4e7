"""The two assignors of members that register in ZooKeeper.

Each member computes the whole assignment from the same data and takes its own part, so all members must get the same
result, in whatever language they are written. Partitions are assigned to threads, which are sorted by their text form.
These functions are not `Assignor`s, which support neither threads nor gaps in partition numbers.

Source: `RangeAssignor`, `RoundRobinAssignor` of `kafka.consumer` in Apache Kafka 1.1. Kafka's round robin leaves the
order of topics whose names have the same hash, like `Aa` and `BB`, to its hash tables; here, such topics are ordered by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from kafkawire.sdk.protocol.java_order import string_hash
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["THREAD_ASSIGNORS", "ThreadAssignor", "assign_ranges", "assign_round_robin"]

#: Given the threads that read each topic and its partition numbers, returns the thread of each partition.
ThreadAssignor = Callable[
    [Mapping[str, Sequence[ConsumerThread]], Mapping[str, Sequence[int]]], dict[TopicPartition, ConsumerThread]
]

_SIGN: Final = 1 << 31


def assign_ranges(
    threads: Mapping[str, Sequence[ConsumerThread]], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, ConsumerThread]:
    """Give each thread of a topic a range of its partitions; the first threads get the remainder.

    Args:
        threads: the threads that read each topic, in any order, `[topic][thread]`.
        partitions: the partition numbers of each topic, in any order, `[topic][partition]`.
    """
    assignment: dict[TopicPartition, ConsumerThread] = {}
    for topic, numbers in partitions.items():
        readers = sorted(threads.get(topic, ()), key=str)
        if not readers:
            continue
        ordered = sorted(numbers)
        share, larger_shares = divmod(len(ordered), len(readers))
        begin = 0
        for index, reader in enumerate(readers):
            end = begin + share + (index < larger_shares)
            for number in ordered[begin:end]:
                assignment[TopicPartition(topic, number)] = reader
            begin = end
    return assignment


def assign_round_robin(
    threads: Mapping[str, Sequence[ConsumerThread]], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, ConsumerThread]:
    """Give the partitions of all topics to the threads in turn; a thread that does not read a topic is skipped.

    The partitions are ordered by hash, to keep all partitions of a topic from going to the same member. With equal
    subscriptions, the counts differ by at most one.

    Args:
        threads: the threads that read each topic, in any order, `[topic][thread]`, for all topics of the group.
        partitions: the partition numbers of each topic, in any order, `[topic][partition]`.
    """
    everyone = sorted({thread for readers in threads.values() for thread in readers}, key=str)
    readers = {topic: frozenset(each) for topic, each in threads.items() if each}
    wanted = [TopicPartition(topic, number) for topic in readers for number in partitions.get(topic, ())]
    turn = cycle(everyone)
    return {
        partition: next(thread for thread in turn if thread in readers[partition.topic])
        for partition in sorted(wanted, key=_place)
    }


#: The assignors by their names in `partition.assignment.strategy`.
THREAD_ASSIGNORS: Final[Mapping[str, ThreadAssignor]] = {"range": assign_ranges, "roundrobin": assign_round_robin}


def _place(partition: TopicPartition) -> tuple[int, str, int]:
    """Return the position of a partition: its hash, a signed number in Java."""
    hashed = string_hash(f"{partition.topic}-{partition.partition}")
    return (hashed ^ _SIGN) - _SIGN, partition.topic, partition.partition
