"""A priority queue for members and processes, the least loaded first, which breaks ties as Java's `PriorityQueue` does.

Which member gets a task among equals decides what moves later, so the order is the same as in Kafka, for the same order
of insertion.

Source: `PriorityQueue` in Java: a binary heap in which an entry rises past larger parents only, and sinks past smaller
children only, the left one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["LoadQueue"]

E = TypeVar("E")


class LoadQueue(Generic[E]):
    """Entries, ordered by their loads when they were put.

    Args:
        entries: the first entries, in the order of insertion.
        load: returns the load of an entry.
    """

    def __init__(self, entries: Iterable[E], load: Callable[[E], float]) -> None:
        self._load = load
        self._heap: list[tuple[float, E]] = []
        for entry in entries:
            self.put(entry)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def put(self, entry: E) -> None:
        """Add an entry with its current load."""
        heap, place = self._heap, len(self._heap)
        load = self._load(entry)
        heap.append((load, entry))
        while place:
            parent = (place - 1) // 2
            if load >= heap[parent][0]:
                break
            heap[place], place = heap[parent], parent
        heap[place] = load, entry

    def pop(self) -> E:
        """Remove the entry with the lowest load."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        place, size = 0, len(heap)
        if size:
            while (child := 2 * place + 1) < size:
                if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                    child += 1
                if last[0] <= heap[child][0]:
                    break
                heap[place], place = heap[child], child
            heap[place] = last
        return first[1]
