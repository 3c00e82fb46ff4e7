"""The memory that all connections share: unfinished requests, those that wait their turn, and unsent responses.

No request is refused for lack of memory. When the memory is used up, a connection that has sent part of a large one is
read no further until there is room; the one that lacks least may go on beyond the limit, so that there is always
progress, but must keep to a minimum rate. So never more than one request of the greatest size is beyond the limit.
When responses that nobody reads take half of the memory, the connections that have not read for longest are closed.
Small requests never wait.

Source: Apache Kafka, `SimpleMemoryPool` (`queued.max.request.bytes`), which reserves what a client announces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkawire.reference_broker.timers import Timer, Timers

__all__ = ["GRACE_MS", "RATE_BYTES_MIN", "Holder", "MemoryBudget"]

#: The minimum per second while others wait: a slow network still sends ten times as much.
RATE_BYTES_MIN = 1024 * 1024

#: What is allowed on top: the client may have been paused, and has to notice that it is not any more.
GRACE_MS = 1_000


class Holder(Protocol):
    """A connection."""

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the request that is being received have not come."""
        ...

    def no_room(self) -> None:
        """Stop reading until `room_again`."""
        ...

    def room_again(self) -> None:
        """Go on reading."""
        ...

    def give_up(self, reason: str) -> None:
        """Close the connection."""
        ...


class MemoryBudget:
    """Counts, and decides which connections wait.

    Args:
        limit_bytes: of all connections together.
        timers: for the minimum rate.
        clock: returns the time in milliseconds.

    Attributes:
        received_bytes: of requests that are not handled yet.
        unsent_bytes: of responses.
    """

    def __init__(self, limit_bytes: int, timers: Timers, clock: Callable[[], int]) -> None:
        self._limit_bytes = limit_bytes
        self._timers = timers
        self._clock = clock
        self.received_bytes = 0
        self.unsent_bytes = 0
        self._waiting: dict[Holder, None] = {}
        self._first: Holder | None = None
        self._first_timer: Timer | None = None
        #: The one that has not read for longest comes first.
        self._unread: dict[Holder, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another byte."""
        return self.received_bytes + self.unsent_bytes >= self._limit_bytes

    # Requests.

    def received(self, by_bytes: int) -> None:
        """Note that a connection holds more bytes of requests than before, or fewer, if negative."""
        self.received_bytes += by_bytes
        if by_bytes < 0:
            self._let_go_on()

    def may_read_much(self, holder: Holder) -> bool:
        """Return whether a connection may read more than a small request at once."""
        return not self.is_full or holder is self._first

    def must_wait(self, holder: Holder) -> bool:
        """Return whether a connection in the middle of a request has to stop reading until `room_again`."""
        if self.may_read_much(holder):
            return False
        first = self._first
        if first is not None:
            later = first if holder.missing_bytes < first.missing_bytes else holder
            self._waiting[later] = None
            if later is holder:
                return True
            first.no_room()
        self._prefer(holder)
        return False

    def done(self, holder: Holder) -> None:
        """Note that the request of a connection is complete, or the connection gone."""
        self._waiting.pop(holder, None)
        if holder is self._first:
            self._prefer(None)
            self._let_go_on()

    def _let_go_on(self) -> None:
        """Let everybody go on if there is room, else the one that lacks least."""
        if not self._waiting:
            return
        if not self.is_full:
            woken, self._waiting = self._waiting, {}
            for holder in woken:
                holder.room_again()
        elif self._first is None:
            following = min(self._waiting, key=lambda holder: holder.missing_bytes)
            del self._waiting[following]
            self._prefer(following)
            following.room_again()

    def _prefer(self, holder: Holder | None) -> None:
        """Let one connection go on beyond the limit."""
        self._first = holder
        if self._first_timer is not None:
            self._first_timer.cancel()
            self._first_timer = None
        if holder is not None:
            allowed_ms = GRACE_MS + holder.missing_bytes * 1000 // RATE_BYTES_MIN

            def too_slow(now_ms: int) -> None:
                if not self.is_full:
                    self._prefer(None)
                    return
                holder.give_up(
                    f"{holder.missing_bytes} bytes of a request are missing after {allowed_ms} ms, while the memory of "
                    f"{self._limit_bytes} bytes for all connections is used up"
                )

            self._first_timer = self._timers.at(self._clock() + allowed_ms, too_slow)

    # Responses.

    def unsent(self, holder: Holder, unsent_bytes: int) -> None:
        """Note how many bytes of responses a connection holds that its client has not read."""
        before = self._unread.pop(holder, 0)
        self.unsent_bytes += unsent_bytes - before
        if unsent_bytes:
            self._unread[holder] = unsent_bytes
            while self.unsent_bytes > self._limit_bytes // 2 and (stuck := next(iter(self._unread))) is not holder:
                self.unsent_bytes -= self._unread.pop(stuck)
                stuck.give_up(
                    f"it does not read its responses, and those of all connections take more than half of the "
                    f"{self._limit_bytes} bytes that they share"
                )
        else:
            self._let_go_on()
