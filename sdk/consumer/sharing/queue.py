"""The queue of acquired records, which the I/O side fills and the reading side empties.

It holds at most one response per broker, because the acquisition locks of waiting records are running out: only a read
that finds it empty has more records acquired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkawire.sdk.consumer.read_queue import ReadQueue
from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, AcquiredRange
from kafkawire.sdk.protocol.values import Buffer

__all__ = ["ShareFetched", "ShareQueue"]


class ShareFetched(NamedTuple):
    """One response's data for one partition.

    Attributes:
        acquired: the acquisition.
        ranges: the acquired offsets, in order, without overlaps.
        records: record batches, which may also contain records that were not acquired.
    """

    acquired: Acquired
    ranges: tuple[AcquiredRange, ...]
    records: Buffer


class ShareQueue(ReadQueue[ShareFetched]):
    """The records that were acquired and have not been read by the application yet.

    Args:
        wake: makes the I/O side take a turn.

    Attributes:
        is_asked: whether a read has found nothing since records last arrived.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(wake)
        self.announces_reads = True
        self.is_asked = False

    @property
    def is_empty(self) -> bool:
        """Whether everything has been read."""
        return not self._items

    # The I/O side.

    def put(self, fetched: ShareFetched) -> None:
        """Append data; `signal` must follow."""
        self._items.append(fetched)
        self.is_asked = False

    def clear(self) -> None:
        """Drop everything that was fetched; `fail` follows."""
        self._items.clear()

    # The reading side.

    def first(self) -> ShareFetched | None:
        """Return the oldest data; None if there is none."""
        return self._items[0] if self._items else None

    def drop(self, fetched: ShareFetched) -> None:
        """Remove data if it is the oldest, because it has been read or is not wanted."""
        if self._items and self._items[0] is fetched:
            self._items.popleft()

    def ask(self) -> None:
        """Have more records acquired, because a read has found nothing; `wait` follows."""
        self.is_asked = True
