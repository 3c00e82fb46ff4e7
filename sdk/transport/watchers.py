"""Callbacks for an event that happens once; any thread can add them.

After adding a watcher, a thread checks whether the event has happened, and takes the watcher back if so; the thread
that triggers the event takes all watchers. Each watcher is taken in a single step in C, and therefore by only one of
the two threads. So there is no need for a lock, which an interrupted thread could hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Watchers"]

Watcher = TypeVar("Watcher")


class Watchers(Generic[Watcher]):
    """The watchers, in the order in which they were added."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[object, Watcher] = {}

    def add(self, watcher: Watcher) -> object:
        """Add a watcher, and return a key for taking it back."""
        place = object()
        self._places[place] = watcher
        return place

    def take_back(self, place: object) -> bool:
        """Take a watcher back; return False if it had already been taken."""
        return self._places.pop(place, None) is not None

    def take(self) -> Iterator[Watcher]:
        """Take all watchers, one at a time."""
        for place in list(self._places):
            watcher = self._places.pop(place, None)
            if watcher is not None:
                yield watcher
