"""The last stable offset of a partition: a value beside the high watermark, and its watchers.

Everything before it is committed or aborted, and may be read at `read_committed`. It is the high watermark, or the
first offset of the oldest transaction that is undecided.

Source: `UnifiedLog.lastStableOffset`, `maybeIncrementFirstUnstableOffset` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.replicas.high_watermark import (
    COMPLETES_ANY_FETCH_BYTES,
    HighWatermark,
    Watcher,
    Watchers,
)

__all__ = ["LastStableOffset"]


class LastStableOffset:
    """The last stable offset of a partition.

    Args:
        high_watermark: of the partition.
        unstable: the first offset of the oldest undecided transaction, None if there is none.

    Attributes:
        offset: the first offset that consumers of committed records may not read.
    """

    def __init__(self, high_watermark: HighWatermark, unstable: int | None = None) -> None:
        self._high_watermark = high_watermark
        self.offset = high_watermark.offset if unstable is None else min(unstable, high_watermark.offset)
        #: The bytes before it that were appended since the log was opened; None if it is before those.
        self._stable_bytes: int | None = 0 if unstable is None else None
        #: The same before each transaction that is undecided, and was begun since.
        self._bytes_before: dict[int, int] = {}
        self._watchers = Watchers()

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` whenever more is stable, or nothing more ever will be, until `unwatch`."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self._watchers.remove(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._watchers)

    def begun(self, first_offset: int) -> None:
        """Note a transaction whose first batch is in the log; that comes before `HighWatermark.appended`."""
        self._bytes_before[first_offset] = self._high_watermark.appended_bytes

    def decided(self, first_offset: int) -> None:
        """Note that a transaction does not hold back anything any more."""
        self._bytes_before.pop(first_offset, None)

    def advance(self, unstable: int | None) -> None:
        """Follow the high watermark, up to the oldest undecided transaction; a lower offset changes nothing.

        Args:
            unstable: its first offset, None if there is none.
        """
        offset = self._high_watermark.offset
        stable_bytes: int | None = self._high_watermark.readable_bytes
        if unstable is not None and unstable < offset:
            offset, stable_bytes = unstable, self._bytes_before.get(unstable)
        if offset <= self.offset:
            return
        # How many bytes lie between transactions that are older than this run is not known.
        size_bytes = COMPLETES_ANY_FETCH_BYTES
        if stable_bytes is not None and self._stable_bytes is not None:
            size_bytes = stable_bytes - self._stable_bytes
        self.offset, self._stable_bytes = offset, stable_bytes
        self._watchers.tell(size_bytes)

    def wake(self) -> None:
        """Have everybody who watches read again: nothing will be stable any more, or what could not be read can be."""
        self._watchers.tell(COMPLETES_ANY_FETCH_BYTES)
