"""The TLS handshakes of a listener that are in progress: limited in number, in time, and in work per turn of the loop.

A handshake takes the processor about a millisecond, mostly for a signature. If many clients connect at once, their
handshakes take turns with the requests of other clients. Until a client has sent its first bytes, it costs hardly more
than its socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from kafkawire.sdk.clock import monotonic_ms

__all__ = ["HANDSHAKES_MAX", "HANDSHAKE_TIMEOUT_MS", "TURN_MS", "Handshake", "Handshakes"]

#: How long a handshake may take. Kafka's clients give up connecting after at most 30 seconds by default.
HANDSHAKE_TIMEOUT_MS: Final = 30_000

#: The maximum number of handshakes in progress on a listener; beyond it, the oldest one ends, since a
#: well-behaved client needs milliseconds. With OpenSSL's buffers, this many take up about 50 MB.
HANDSHAKES_MAX: Final = 1_000

#: How long handshakes are worked on before requests have a turn.
TURN_MS: Final = 2


class Handshake(Protocol):
    """A handshake in progress."""

    def step(self) -> None:
        """Continue with what has been received."""
        ...

    def give_up(self, reason: str) -> None:
        """End the connection."""
        ...


class Handshakes:
    """The handshakes of one listener.

    Args:
        clock: returns a time in milliseconds that does not jump.
    """

    def __init__(self, clock: Callable[[], int] = monotonic_ms) -> None:
        self._clock = clock
        self._deadlines: dict[Handshake, int] = {}
        self._ready: dict[Handshake, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def begin(self, handshake: Handshake) -> None:
        """Record a new handshake."""
        if len(self._deadlines) >= HANDSHAKES_MAX:
            oldest = next(iter(self._deadlines))
            self.end(oldest)
            oldest.give_up(f"{HANDSHAKES_MAX} later TLS handshakes are in progress")
        self._deadlines[handshake] = self._clock() + HANDSHAKE_TIMEOUT_MS
        if self._timer is None:
            self._wait(HANDSHAKE_TIMEOUT_MS)

    def continue_with(self, handshake: Handshake) -> None:
        """Continue with a handshake when its turn comes."""
        self._ready[handshake] = None
        self._schedule()

    def end(self, handshake: Handshake) -> None:
        """Forget a handshake that is complete or has failed."""
        self._deadlines.pop(handshake, None)
        self._ready.pop(handshake, None)

    def close(self) -> None:
        """End all handshakes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._deadlines:
            handshake = next(iter(self._deadlines))
            self.end(handshake)
            handshake.give_up("the broker is stopping")

    def _schedule(self) -> None:
        if self._ready and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        until_ms = self._clock() + TURN_MS
        while self._ready:
            handshake = next(iter(self._ready))
            del self._ready[handshake]
            handshake.step()
            if self._clock() >= until_ms:
                break
        self._schedule()

    def _wait(self, delay_ms: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._look)

    def _look(self) -> None:
        """End the handshakes that have taken too long; they are in the order of their deadlines."""
        self._timer = None
        now_ms = self._clock()
        while self._deadlines:
            handshake, deadline_ms = next(iter(self._deadlines.items()))
            if deadline_ms > now_ms:
                self._wait(deadline_ms - now_ms)
                return
            self.end(handshake)
            handshake.give_up(f"no TLS handshake within {HANDSHAKE_TIMEOUT_MS} ms")
