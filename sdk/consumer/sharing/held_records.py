"""The offsets that brokers hold for a share consumer, as far as the I/O side knows."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.consumer.sharing.acquisitions import Acquired

__all__ = ["HeldRecords"]


class HeldRecords:
    """The acquisitions with unacknowledged offsets.

    Attributes:
        count: the number of unacknowledged offsets.
    """

    def __init__(self) -> None:
        self._acquired: dict[Acquired, None] = {}
        self.count = 0

    def add(self, acquired: Acquired) -> None:
        """Add an acquisition."""
        self._acquired[acquired] = None
        self.count += acquired.left

    def release(self, acquired: Acquired, count: int) -> None:
        """Subtract offsets of an acquisition, because their acknowledgement has ended."""
        if acquired not in self._acquired:
            return
        count = min(count, acquired.left)
        acquired.left -= count
        self.count -= count
        if not acquired.left:
            del self._acquired[acquired]

    def lose(self, is_lost: Callable[[Acquired], bool]) -> None:
        """Mark acquisitions as lost, and stop counting them."""
        for acquired in [each for each in self._acquired if is_lost(each)]:
            acquired.is_lost = True
            self.release(acquired, acquired.left)

    def expire(self, now_ms: int) -> int | None:
        """Stop counting acquisitions whose locks have run out; return when the next locks do, if there are any."""
        self.lose(lambda acquired: acquired.locked_until_ms <= now_ms)
        return min((acquired.locked_until_ms for acquired in self._acquired), default=None)
