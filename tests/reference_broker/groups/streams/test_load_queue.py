"""The queue returns the least loaded entry, and breaks ties as Java's `PriorityQueue` does.

Method: compare with orders that Java's queue has produced, and with sorting.
"""

from __future__ import annotations

from random import Random

from kafkawire.reference_broker.groups.streams.load_queue import LoadQueue


def test_order_among_equals_is_that_of_java() -> None:
    queue = LoadQueue("abcde", lambda _: 0)
    assert [queue.pop() for _ in range(5)] == ["a", "e", "d", "c", "b"]


def test_entries_that_come_back() -> None:
    loads = {"a": 0, "b": 0, "c": 0}
    queue = LoadQueue(loads, loads.__getitem__)
    taken = []
    for _ in range(6):
        taken.append(queue.pop())
        loads[taken[-1]] += 1
        queue.put(taken[-1])
    assert taken == ["a", "c", "b", "c", "b", "a"]


def test_least_load_is_first() -> None:
    random = Random(1)
    for _ in range(100):
        numbers = [random.randrange(20) for _ in range(random.randrange(1, 30))]
        queue = LoadQueue(numbers, float)
        assert [queue.pop() for _ in numbers] == sorted(numbers)
        assert not queue
