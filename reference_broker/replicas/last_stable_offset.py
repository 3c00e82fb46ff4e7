"""The last stable offset of a partition, which complements its high watermark, and its watchers.

All records before it are committed or aborted, and can be read at `read_committed`. It is the high watermark or the
first offset of the oldest undecided transaction, whichever is lower.

Source: `UnifiedLog.lastStableOffset`, `maybeIncrementFirstUnstableOffset` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.replicas.awaited_offset import (
    COMPLETES_ANY_FETCH_BYTES,
    AwaitedOffset,
    Watcher,
    Watchers,
)

__all__ = ["LastStableOffset"]


class LastStableOffset:
    """The last stable offset of a partition.

    Args:
        high_watermark: the high watermark of the partition.
        unstable: the first offset of the oldest undecided transaction, or None.

    Attributes:
        offset: the first offset not readable at `read_committed`.
    """

    def __init__(self, high_watermark: AwaitedOffset, unstable: int | None = None) -> None:
        self._high_watermark = high_watermark
        self.offset = high_watermark.offset if unstable is None else min(unstable, high_watermark.offset)
        #: The number of bytes before `offset` that have been appended since the log was opened; None if `offset`
        #: precedes them.
        self._stable_bytes: int | None = 0 if unstable is None else None
        #: The same number for the first offset of each undecided transaction that has begun since then.
        self._bytes_before: dict[int, int] = {}
        self._watchers = Watchers()

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` when more records are stable, or when reading ends, until `unwatch`."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self._watchers.remove(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether there are watchers."""
        return bool(self._watchers)

    def begun(self, first_offset: int) -> None:
        """Record a transaction whose first batch has been appended; call this before `AwaitedOffset.appended`."""
        self._bytes_before[first_offset] = self._high_watermark.appended_bytes

    def decided(self, first_offset: int) -> None:
        """Record that a transaction has been decided."""
        self._bytes_before.pop(first_offset, None)

    def advance(self, unstable: int | None) -> None:
        """Advance with the high watermark, up to the oldest undecided transaction; a lower offset has no effect.

        Args:
            unstable: the first offset of that transaction, or None.
        """
        offset = self._high_watermark.offset
        stable_bytes: int | None = self._high_watermark.readable_bytes
        if unstable is not None and unstable < offset:
            offset, stable_bytes = unstable, self._bytes_before.get(unstable)
        if offset <= self.offset:
            return
        # The number of bytes between transactions that began before this run is unknown.
        size_bytes = COMPLETES_ANY_FETCH_BYTES
        is_known = self.offset >= self._high_watermark.unknown_to
        if is_known and stable_bytes is not None and self._stable_bytes is not None:
            size_bytes = stable_bytes - self._stable_bytes
        self.offset, self._stable_bytes = offset, stable_bytes
        self._watchers.tell(size_bytes)

    def truncate(self, end_offset: int, unstable: int | None) -> None:
        """Adjust to a truncation of the log, after the high watermark has been adjusted.

        Args:
            end_offset: the new end of the log.
            unstable: see `advance`.
        """
        self._bytes_before = {first: size for first, size in self._bytes_before.items() if first < end_offset}
        offset = self._high_watermark.offset
        self.offset = min(self.offset, offset if unstable is None else min(unstable, offset))
        self._stable_bytes = None
        self.advance(unstable)
        self.wake()

    def wake(self) -> None:
        """Make all watchers read again, since reading has ended or has become possible again."""
        self._watchers.tell(COMPLETES_ANY_FETCH_BYTES)
