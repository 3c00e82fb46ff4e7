"""Parts of one response that come from several shards, each in its own time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Gathering"]

P = TypeVar("P")


class Gathering(Generic[P]):
    """Waits for all parts.

    Args:
        count: how many there are; 0 completes at once.
        complete: called with all parts in order.
    """

    def __init__(self, count: int, complete: Callable[[list[P]], None]) -> None:
        self._parts: dict[int, P] = {}
        self._count = count
        self._complete = complete
        if not count:
            complete([])

    def put(self, number: int, part: P) -> None:
        """Set a part."""
        self._parts[number] = part
        if len(self._parts) == self._count:
            self._complete([self._parts[number] for number in range(self._count)])
