"""An offset in a partition, usually the high watermark, and the callbacks that wait for it to move.

All records before the high watermark can be read and acknowledged. `Replica` and `ClusterReplica` decide when it moves.
A leader in a cluster has two more such offsets: the end of the records that its own disk has stored, and the low
watermark.

Source: `UnifiedLog.highWatermark`, `DelayedOperationPurgatory` in Apache Kafka.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count

from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError

__all__ = ["COMPLETES_ANY_FETCH_BYTES", "UNREADABLE_MAX", "AwaitedOffset", "Reached", "Watcher", "Watchers"]

#: Called with None once an offset has been reached, or with the error that prevents this.
Reached = Callable[[BrokerError | None], None]

#: Called with the number of bytes that have become readable.
Watcher = Callable[[int], None]

#: Higher than any fetch's `min_bytes`, which is an int32.
COMPLETES_ANY_FETCH_BYTES = 2**31

#: The maximum number of unreadable batches whose sizes are kept: a leader with too few replicas in sync may append for
#: hours. Beyond this number, each advance of the high watermark completes any fetch, until all batches are readable.
UNREADABLE_MAX = 10_000


class Watchers:
    """Callbacks that receive the number of newly readable bytes."""

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
        """Notify all current watchers."""
        for watcher in tuple(self._watchers):
            call(watcher, size_bytes)


class AwaitedOffset:
    """An offset for which callbacks wait; names and descriptions are given for the high watermark.

    Args:
        offset: the initial value.
        end_offset: the end of the log; None if it equals `offset`.

    Attributes:
        offset: the first offset that consumers may not read.
        appended_bytes: the total size of the appended batches.
        readable_bytes: the total size of the readable batches.
        unknown_to: the offset up to which the sizes of batches are unknown, because the batches were appended earlier,
            were readable before the offset moved back, or were too many.
        watchers: notified when more can be read, or when reading ends.
    """

    def __init__(self, offset: int, end_offset: int | None = None) -> None:
        self.offset = offset
        self.unknown_to = offset if end_offset is None else end_offset
        self.appended_bytes = self.readable_bytes = 0
        self._error: BrokerError | None = None
        #: (offset, number, callback); the number keeps callbacks for the same offset in order.
        self._waiting: list[tuple[int, int, Reached]] = []
        self._numbers = count()
        self.watchers = Watchers()
        #: (end offset, size) of the batches that are not readable yet; the last entry may stand for several batches.
        self._unreadable: deque[tuple[int, int]] = deque()

    def when_reached(self, offset: int, callback: Reached) -> None:
        """Call `callback` once this offset has reached `offset`; immediately if it already has.

        Each partition of a waiting produce request has one entry, and a connection has one request at a time.
        """
        if offset <= self.offset or self._error is not None:
            call(callback, None if offset <= self.offset else self._error)
        else:
            heapq.heappush(self._waiting, (offset, next(self._numbers), callback))

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` when more can be read, or when reading ends, until `unwatch`."""
        self.watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self.watchers.remove(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether there are watchers."""
        return bool(self.watchers)

    def appended(self, end_offset: int, size_bytes: int) -> None:
        """Record an appended batch, which becomes readable when the high watermark reaches its end."""
        self.appended_bytes += size_bytes
        if len(self._unreadable) >= UNREADABLE_MAX:
            self.unknown_to = end_offset
            size_bytes += self._unreadable.pop()[1]
        self._unreadable.append((end_offset, size_bytes))

    def advance(self, offset: int) -> None:
        """Move to `offset`; a lower offset has no effect."""
        if offset <= self.offset:
            return
        has_unknown = self.offset < self.unknown_to
        self.offset = offset
        size_bytes = 0
        while self._unreadable and self._unreadable[0][0] <= offset:
            size_bytes += self._unreadable.popleft()[1]
        self.readable_bytes += size_bytes
        while self._waiting and self._waiting[0][0] <= self.offset:
            call(heapq.heappop(self._waiting)[2], None)
        self.watchers.tell(COMPLETES_ANY_FETCH_BYTES if has_unknown else size_bytes)

    def move_back(self, offset: int) -> None:
        """Move to a lower offset; from then on, the sizes of the batches that are no longer readable are unknown."""
        if offset < self.offset:
            self.unknown_to = max(self.unknown_to, self.offset)
            self.offset = offset

    def truncate(self, offset: int, end_offset: int, error: BrokerError, *, is_empty: bool = False) -> None:
        """Adjust to a truncation of the log, which may have removed records for which callbacks are waiting.

        Args:
            offset: the high watermark, which may be lower.
            end_offset: the new end of the log.
            error: the error for callbacks waiting for records that are gone.
            is_empty: whether all records are gone, in which case the log may begin at a later offset.
        """
        kept_to = min(self.offset, end_offset) if is_empty else end_offset
        while self._unreadable and self._unreadable[-1][0] > kept_to:
            self.appended_bytes -= self._unreadable.pop()[1]
        self.move_back(offset)
        self.unknown_to = min(self.unknown_to, kept_to)
        gone = [entry for entry in self._waiting if entry[0] > kept_to]
        self._waiting = [entry for entry in self._waiting if entry[0] <= kept_to]
        heapq.heapify(self._waiting)
        for _, _, callback in sorted(gone, key=lambda entry: entry[:2]):
            call(callback, error)
        self.advance(offset)
        self.watchers.tell(COMPLETES_ANY_FETCH_BYTES)

    def refuse(self, error: BrokerError) -> None:
        """Report an error to all waiting callbacks, and to later ones until `accept`.

        This is called when this broker no longer leads the partition, or the log has ended. The high watermark may
        still move, but the awaited records may be lost.

        Args:
            error: see above.
        """
        self._error = error
        waiting, self._waiting = self._waiting, []
        for _, _, callback in sorted(waiting, key=lambda entry: entry[:2]):
            call(callback, error)
        self.watchers.tell(COMPLETES_ANY_FETCH_BYTES)

    def accept(self) -> None:
        """Let callbacks wait again, now that this broker leads the partition."""
        self._error = None
