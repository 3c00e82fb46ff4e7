"""Work in pieces: generators that yield after each entry, so that other work gets a turn between any two pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TypeAlias, TypeVar

__all__ = ["Pieces", "Work", "counted", "each"]

E = TypeVar("E")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

#: Yields after each entry, and returns the result.
Work: TypeAlias = Generator[None, None, R]


def each(entries: Iterable[E], act: Callable[[E], R]) -> Work[list[R]]:
    """Call a function for each entry; return its results."""
    results = []
    for entry in entries:
        results.append(act(entry))
        yield
    return results


def counted(entries: Iterable[K]) -> Work[dict[K, int]]:
    """Return the number of occurrences of each entry, in order of first occurrence."""
    counts: dict[K, int] = {}
    for entry in entries:
        counts[entry] = counts.get(entry, 0) + 1
        yield
    return counts


class Pieces:
    """Counts the entries of a large request across nested loops; an empty inner loop also counts as an entry.

    Args:
        size: the number of entries in a piece.
    """

    __slots__ = ("_left", "_size")

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def ends(self) -> bool:
        """Count one more entry; return whether the piece ends after it."""
        self._left -= 1
        if self._left:
            return False
        self._left = self._size
        return True
