"""Callbacks of something that happens once, added from any thread.

The thread that adds a watcher then looks whether it has happened, and takes the watcher back if so; the thread that
makes it happen takes all watchers. Each watcher is taken in one step of C, and so by one of the two: no lock is needed
under which a thread could be interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Watchers"]

Watcher = TypeVar("Watcher")


class Watchers(Generic[Watcher]):
    """Watchers, in the order in which they came."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[object, Watcher] = {}

    def add(self, watcher: Watcher) -> object:
        """Add a watcher, and return what takes it back."""
        place = object()
        self._places[place] = watcher
        return place

    def take_back(self, place: object) -> bool:
        """Take a watcher back; return whether it was still there."""
        return self._places.pop(place, None) is not None

    def take(self) -> Iterator[Watcher]:
        """Take all, one by one."""
        for place in list(self._places):
            watcher = self._places.pop(place, None)
            if watcher is not None:
                yield watcher
