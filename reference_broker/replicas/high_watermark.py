"""The high watermark of a partition: a value, and what waits for it to move.

Everything before it may be read and acknowledged. A single broker has no followers to wait for: it moves with the end
of the log, or with the sync that `flush.messages` asks for.

Source: `UnifiedLog.highWatermark`, `DelayedOperationPurgatory` in Apache Kafka.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count

from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError

__all__ = ["COMPLETES_ANY_FETCH_BYTES", "HighWatermark", "Reached", "Watcher", "Watchers"]

#: Called once the high watermark has reached an offset, with None; or with the reason why it never will.
Reached = Callable[[BrokerError | None], None]

#: Called with the number of bytes that have become readable.
Watcher = Callable[[int], None]

#: More than the `min_bytes` of any fetch, an int32.
COMPLETES_ANY_FETCH_BYTES = 2**31


class Watchers:
    """Callbacks that are told how much has become readable."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: dict[Watcher, None] = {}

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def add(self, watcher: Watcher) -> None:
        """Add a watcher."""
        self._watchers[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher; may be called more than once."""
        self._watchers.pop(watcher, None)

    def tell(self, size_bytes: int) -> None:
        """Tell everybody who watches now."""
        for watcher in tuple(self._watchers):
            call(watcher, size_bytes)


class HighWatermark:
    """The high watermark of a partition.

    Args:
        offset: its first value.

    Attributes:
        offset: the first offset that consumers may not read.
        appended_bytes: the size of all batches that were noted.
        readable_bytes: the size of the readable ones among them.
        watchers: are told when more can be read, or that nothing more ever will be.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.appended_bytes = self.readable_bytes = 0
        self._error: BrokerError | None = None
        #: (offset, number, callback); the number keeps callbacks of one offset in order.
        self._waiting: list[tuple[int, int, Reached]] = []
        self._numbers = count()
        self.watchers = Watchers()
        #: (end offset, size) of the batches that are not readable yet.
        self._unreadable: deque[tuple[int, int]] = deque()

    def when_reached(self, offset: int, callback: Reached) -> None:
        """Call `callback` once when the high watermark is at `offset` or after it; at once if it is already.

        What waits is one entry for each produced partition of a request, and a connection has one request at a time.
        """
        if offset <= self.offset or self._error is not None:
            call(callback, None if offset <= self.offset else self._error)
        else:
            heapq.heappush(self._waiting, (offset, next(self._numbers), callback))

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` whenever more can be read, or nothing more ever will be, until `unwatch`."""
        self.watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self.watchers.remove(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self.watchers)

    def appended(self, end_offset: int, size_bytes: int) -> None:
        """Note a batch that is in the log and becomes readable when the high watermark reaches its end."""
        self._unreadable.append((end_offset, size_bytes))
        self.appended_bytes += size_bytes

    def advance(self, offset: int) -> None:
        """Move to `offset`; a lower one than before changes nothing."""
        if offset <= self.offset:
            return
        self.offset = offset
        size_bytes = 0
        while self._unreadable and self._unreadable[0][0] <= offset:
            size_bytes += self._unreadable.popleft()[1]
        self.readable_bytes += size_bytes
        while self._waiting and self._waiting[0][0] <= self.offset:
            call(heapq.heappop(self._waiting)[2], None)
        self.watchers.tell(size_bytes)

    def fail(self, error: BrokerError) -> None:
        """Tell everybody who waits that the high watermark will not move any more."""
        self._error = error
        waiting, self._waiting = self._waiting, []
        for _, _, callback in sorted(waiting, key=lambda entry: entry[:2]):
            call(callback, error)
        self.watchers.tell(COMPLETES_ANY_FETCH_BYTES)
