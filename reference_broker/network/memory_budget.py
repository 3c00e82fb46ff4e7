"""The memory that all connections share: unfinished requests, waiting requests, and unsent responses.

No request is refused for lack of memory. When the memory is used up, a connection that has sent part of a large request
is not read until there is room. To guarantee progress, the connection with the fewest missing bytes may exceed the
limit, but must keep up a minimum rate. The limit is therefore exceeded by at most one request of the maximum size. When
responses take up half of the memory, connections that hold most of it and whose clients are not reading are closed. One
connection may exceed that half, however large its response, as long as its client keeps up the minimum rate. Small
requests never wait.

Source: Apache Kafka, `SimpleMemoryPool` (`queued.max.request.bytes`), which reserves the size given by the length
prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkawire.reference_broker.work.timers import Timer, Timers

__all__ = ["GRACE_MS", "RATE_BYTES_MIN", "Holder", "MemoryBudget"]

#: The minimum rate, in bytes per second, while others wait; even a slow network is ten times as fast.
RATE_BYTES_MIN = 1024 * 1024

#: Extra time for a paused client to notice that it can resume. A client that has read nothing for this long is deemed
#: not to be reading.
GRACE_MS = 1_000

#: New responses are treated as if they had been stuck for this long, so a connection with nine times as many new bytes
#: is closed before a stuck one.
_NEW_MS = GRACE_MS // 8


class Holder(Protocol):
    """A connection that holds memory."""

    @property
    def missing_bytes(self) -> int:
        """The number of bytes of the current request that have not arrived yet."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes of responses that the client has not read yet."""
        ...

    def no_room(self) -> None:
        """Stop reading until `room_again`."""
        ...

    def room_again(self) -> None:
        """Resume reading."""
        ...

    def give_up(self, reason: str) -> None:
        """Close the connection."""
        ...


class _Unread:
    """The responses that a client has not read.

    Attributes:
        size_bytes: their size at the last check.
    """

    __slots__ = ("_first_bytes", "_since_ms", "size_bytes")

    def __init__(self, size_bytes: int, now_ms: int) -> None:
        self.size_bytes = self._first_bytes = size_bytes
        self._since_ms = now_ms

    def behind_ms(self, now_ms: int) -> int:
        """Return how far behind the minimum rate the client is, in milliseconds."""
        read_ms = (self._first_bytes - self.size_bytes) * 1000 // RATE_BYTES_MIN
        return max(now_ms - self._since_ms - read_ms, 0)

    def cost(self, now_ms: int) -> int:
        """Return the priority for closing the connection: large and stuck responses come first."""
        return self.size_bytes * (_NEW_MS + min(self.behind_ms(now_ms), GRACE_MS))


class MemoryBudget:
    """Counts the memory in use, and decides which connections wait.

    Args:
        limit_bytes: the limit for all connections together.
        timers: used to check the minimum rate.
        clock: returns the time in milliseconds.

    Attributes:
        received_bytes: bytes of requests that have not been handled yet.
        unsent_bytes: bytes of responses that have not been sent yet.
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
        self._unread: dict[Holder, _Unread] = {}
        #: The connection whose response may exceed the limit.
        self._beyond: Holder | None = None
        self._unread_timer: Timer | None = None

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another byte."""
        return self.received_bytes + self.unsent_bytes >= self._limit_bytes

    # Requests.

    def received(self, by_bytes: int) -> None:
        """Record that a connection holds this many more bytes of requests, or fewer if the number is negative."""
        self.received_bytes += by_bytes
        if by_bytes < 0:
            self._let_go_on()

    def may_read_much(self, holder: Holder) -> bool:
        """Return whether a connection may read more at a time than a small request."""
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
        """Record that a connection needs no memory now: its request is complete, or it is paused or closed."""
        self._waiting.pop(holder, None)
        if holder is self._first:
            self._prefer(None)
            self._let_go_on()

    def _let_go_on(self) -> None:
        """Resume all connections if there is room; otherwise, only the one with the fewest missing bytes."""
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
        """Let one connection exceed the limit."""
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
                    f"{holder.missing_bytes} bytes of a request are still missing after {allowed_ms} ms, and the limit "
                    f"of {self._limit_bytes} bytes for all connections has been reached"
                )

            self._first_timer = self._timers.at(self._clock() + allowed_ms, too_slow)

    # Responses.

    def unsent(self, holder: Holder, unsent_bytes: int) -> None:
        """Record how many bytes of responses a connection holds after sending everything or writing more."""
        before = self._unread.pop(holder, None)
        self.unsent_bytes += unsent_bytes - (before.size_bytes if before is not None else 0)
        if not unsent_bytes:
            if holder is self._beyond:
                self._beyond = None
            self._let_go_on()
            return
        self._unread[holder] = _Unread(unsent_bytes, self._steady_ms())
        allowed_bytes = self._limit_bytes // 2
        if self._beyond is not None:
            allowed_bytes += self._unread[self._beyond].size_bytes
        if self.unsent_bytes > allowed_bytes:
            self._relieve()

    def _steady_ms(self) -> int:
        """Return the time without clock jumps."""
        return self._clock() - self._timers.jumped_ms

    def _relieve(self) -> None:
        """While responses take more than half of the memory, close connections, except the one that may exceed it."""
        now_ms = self._steady_ms()
        for holder, unread in self._unread.items():
            left_bytes = holder.unsent_bytes
            self.unsent_bytes += left_bytes - unread.size_bytes
            unread.size_bytes = left_bytes
        while self.unsent_bytes > self._limit_bytes // 2:
            if self._beyond is None:
                self._beyond = max(self._unread, key=lambda holder: self._unread[holder].size_bytes)
            beyond = self._unread[self._beyond]
            may_go_on = beyond.behind_ms(now_ms) < GRACE_MS
            if may_go_on and self.unsent_bytes - beyond.size_bytes <= self._limit_bytes // 2:
                self._look_again()
                break
            candidates = [holder for holder in self._unread if not (may_go_on and holder is self._beyond)]
            self._close(max(candidates, key=lambda holder: self._unread[holder].cost(now_ms)))
        else:
            self._beyond = None
        self._let_go_on()

    def _close(self, stuck: Holder) -> None:
        size_bytes = self._unread.pop(stuck).size_bytes
        self.unsent_bytes -= size_bytes
        if stuck is self._beyond:
            self._beyond = None
        stuck.give_up(
            f"the client has not read {size_bytes} bytes of responses, and unread responses take more than half of "
            f"the {self._limit_bytes} bytes of memory shared by all connections"
        )

    def _look_again(self) -> None:
        """Check that the connections that exceed the limit keep up the minimum rate."""
        if self._unread_timer is None or not self._unread_timer.is_pending:
            self._unread_timer = self._timers.at(self._clock() + GRACE_MS, lambda now_ms: self._relieve())
