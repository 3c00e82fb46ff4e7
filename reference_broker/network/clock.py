"""The broker's clock: timestamps use the machine's wall clock, and timeouts ignore its jumps.

Timestamps in records and responses follow the machine's clock: after a suspend or a clock change, they are immediately
correct. Code that measures durations is notified of each jump, and shifts its deadlines.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.clock import monotonic_ms, now_ms

__all__ = ["JUMP_MS", "BrokerClock"]

#: A smaller difference between the clocks is not a jump, since the machine's clock may be adjusted gradually.
JUMP_MS = 100


class BrokerClock:
    """Milliseconds since the epoch.

    Args:
        wall_ms: the machine's clock, which can be set and advances during a suspend.
        steady_ms: a clock that cannot be set and may stand still during a suspend.

    Attributes:
        on_jump: called with the size of a jump, in milliseconds, before the new time is used.
    """

    def __init__(self, wall_ms: Callable[[], int] = now_ms, steady_ms: Callable[[], int] = monotonic_ms) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._ahead_ms = wall_ms() - steady_ms()
        self.on_jump: Callable[[int], None] | None = None

    @property
    def known_ms(self) -> int:
        """The time for checking existing deadlines; reading it does not look for a jump, so no deadline is shifted."""
        return self._steady_ms() + self._ahead_ms

    def __call__(self) -> int:
        """Return the time."""
        time_ms = self.known_ms
        jump_ms = self._wall_ms() - time_ms
        if -JUMP_MS < jump_ms < JUMP_MS:
            return time_ms
        self._ahead_ms += jump_ms
        if self.on_jump is not None:
            self.on_jump(jump_ms)
        return time_ms + jump_ms
