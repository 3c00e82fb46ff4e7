"""The offsets that brokers hold for a share consumer, as far as the I/O side knows.

The locks of an acquisition begin together. A renewal gives one of them an end of its own, and a failed renewal ends one
before the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkawire.sdk.consumer.sharing.acquisitions import Acquired

__all__ = ["HeldRecords"]

#: The end of a lock that is lost.
_LOST: Final = 0


class HeldRecords:
    """The acquisitions with unacknowledged offsets.

    An offset counts until its acknowledgement has ended, its renewal has failed, or its lock has run out.

    Attributes:
        count: the number of unacknowledged offsets.
    """

    def __init__(self) -> None:
        self._locks: dict[Acquired, _Locks] = {}
        self.count = 0

    def add(self, acquired: Acquired) -> None:
        """Add an acquisition."""
        self._locks[acquired] = _Locks(acquired.count)
        self.count += acquired.count

    def release(self, acquired: Acquired, offset: int, count: int = 1) -> None:
        """Subtract offsets of an acquisition, because their acknowledgement has ended.

        Args:
            acquired: the acquisition.
            offset: the offset; the first one if there are several, whose locks are not renewed.
            count: the number of offsets.
        """
        locks = self._locks.get(acquired)
        if locks is None:
            return
        if offset in locks.apart:
            ended = int(locks.apart.pop(offset) != _LOST)
        else:
            ended = min(count, locks.together)
            locks.together -= ended
        self._count(acquired, locks, -ended)

    def renewed(self, acquired: Acquired, offset: int, locked_until_ms: int) -> None:
        """Note that the lock of an offset has been renewed.

        Args:
            acquired: the acquisition.
            offset: the offset.
            locked_until_ms: when the lock runs out now.
        """
        if not acquired.is_lost:
            # If the other locks ran out while the renewal was on its way, the acquisition has been forgotten.
            self._part(acquired, self._locks.setdefault(acquired, _Locks(0)), offset, locked_until_ms)

    def lost(self, acquired: Acquired, offset: int) -> None:
        """Subtract an offset whose renewal has failed; its acknowledgement, which may follow, subtracts nothing."""
        locks = self._locks.get(acquired)
        if locks is not None:
            self._part(acquired, locks, offset, _LOST)

    def lose(self, is_lost: Callable[[Acquired], bool]) -> None:
        """Mark acquisitions as lost, and stop counting them."""
        for acquired in [each for each in self._locks if is_lost(each)]:
            acquired.is_lost = True
            self.count -= self._locks.pop(acquired).left

    def expire(self, now_ms: int) -> int | None:
        """Stop counting offsets whose locks have run out; return when the next locks do, if there are any."""
        ends_ms: list[int] = []
        for acquired, locks in [*self._locks.items()]:
            ended = 0
            if acquired.locked_until_ms <= now_ms:
                ended, locks.together = locks.together, 0
            elif locks.together:
                ends_ms.append(acquired.locked_until_ms)
            for offset, until_ms in locks.apart.items():
                if until_ms > now_ms:
                    ends_ms.append(until_ms)
                elif until_ms != _LOST:
                    locks.apart[offset] = _LOST
                    ended += 1
            self._count(acquired, locks, -ended)
        return min(ends_ms, default=None)

    def _part(self, acquired: Acquired, locks: _Locks, offset: int, until_ms: int) -> None:
        """Give the lock of one offset an end of its own."""
        if offset in locks.apart:
            before = int(locks.apart[offset] != _LOST)
        else:
            before = min(1, locks.together)
            locks.together -= before
        locks.apart[offset] = until_ms
        self._count(acquired, locks, int(until_ms != _LOST) - before)

    def _count(self, acquired: Acquired, locks: _Locks, change: int) -> None:
        """Change how many offsets count; an acquisition is forgotten once none does."""
        locks.left += change
        self.count += change
        if not locks.left:
            del self._locks[acquired]


class _Locks:
    """The locks of an acquisition.

    Args:
        together: how many of them run out together, at the time that the acquisition has.

    Attributes:
        together: as given.
        apart: when the others run out, keyed by offset.
        left: how many of all these have not ended.
    """

    __slots__ = ("apart", "left", "together")

    def __init__(self, together: int) -> None:
        self.together = self.left = together
        self.apart: dict[int, int] = {}
