"""How many more connections the process's file descriptors allow; logs need some descriptors for their files."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable

from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.disk.reserves import few_connections, kept_for_files

__all__ = ["Descriptors", "open_descriptors"]

#: Where the operating system lists a process's own descriptors.
_LISTING = "/dev/fd"

#: How long a count stays valid. Counting 10,000 descriptors takes 4 ms.
_COUNT_MS = 100


def open_descriptors() -> int | None:
    """Return the number of open descriptors of this process; None if it is unknown."""
    try:
        return len(os.listdir(_LISTING)) - 1  # without the descriptor of the listing itself
    except OSError as error:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0] if is_short_of_descriptors(error) else None


class Descriptors:
    """Checks whether there is room for another connection.

    Open descriptors are counted because files and other code in this process also use them. They are not counted for
    every connection: a count is reused for a moment, or until half of the room that it found has been taken.

    Args:
        clock: returns the time in milliseconds.
        count: returns the number of open descriptors, or None if it is unknown.
    """

    def __init__(self, clock: Callable[[], int], count: Callable[[], int | None] = open_descriptors) -> None:
        self._clock = clock
        self._count = count
        self._counted_ms: int | None = None
        self._room = self._left = self._few = 0
        self._reason = ""

    def refusal(self, connections: int) -> str:
        """Return why another connection, whose descriptor is already open, must be refused, or "" if it may stay.

        Args:
            connections: the number of other connections.
        """
        now_ms = self._clock()
        self._left -= 1
        is_recent = self._counted_ms is not None and 0 <= now_ms - self._counted_ms < _COUNT_MS
        if not is_recent or (self._left < 0 <= self._room):
            self._look(now_ms)
        return "" if connections < self._few else self._reason

    def _look(self, now_ms: int) -> None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = None if limit == resource.RLIM_INFINITY else self._count()
        self._counted_ms, self._reason = now_ms, ""
        # If the count is unknown, the listener has to wait once the last descriptor is in use.
        reserve = kept_for_files(limit)
        self._few = few_connections(limit)
        self._room = 0 if count is None else limit - reserve - count
        self._left = self._room // 2
        if self._room < 0:
            text = "{} of {} file descriptors are open, and {} are reserved for files (ulimit -n)"
            self._reason = text.format(count, limit, reserve)
