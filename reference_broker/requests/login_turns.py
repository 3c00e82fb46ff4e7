"""How long the messages of logins are handled before other requests have a turn.

If a thousand clients log in at once, all their messages arrive in the same turn of the event loop. Each takes a tenth
of a millisecond, and the first login with a delegation token up to 12 ms. Other clients wait for only a part of that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["LOGIN_TURN_MS", "LoginTurns"]

#: How long logins are worked on before requests have a turn, which is as long as for TLS handshakes.
LOGIN_TURN_MS: Final = 2

#: Calls a function soon, but not immediately: once everything that has already arrived has had its turn.
Defer = Callable[[Callable[[], None]], object]


class LoginTurns:
    """The turns of the connections on which clients log in; each of them waits at most once.

    Args:
        clock: returns a time in milliseconds that does not jump.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        #: When the current turn ends; None if there is none.
        self._until_ms: int | None = None
        self._is_working = False

    def __len__(self) -> int:
        return len(self._waiting)

    def has_time(self, go_on: Callable[[], None], defer: Defer) -> bool:
        """Return whether a message can be handled now; if not, a function will be called when it can.

        Args:
            go_on: the function. What it handles has time.
            defer: see `Defer`.
        """
        if self._is_working:
            return True
        if not self._waiting:
            now_ms = self._clock()
            if self._until_ms is None:
                self._until_ms = now_ms + LOGIN_TURN_MS
                defer(lambda: self._next(defer))
                return True
            if now_ms < self._until_ms:
                return True
        self._waiting.append(go_on)
        return False

    def _next(self, defer: Defer) -> None:
        """Give the waiting connections one turn."""
        self._until_ms = None
        if not self._waiting:
            return
        self._is_working = True
        try:
            until_ms = self._clock() + LOGIN_TURN_MS
            while self._waiting:
                self._waiting.popleft()()
                if self._clock() >= until_ms:
                    break
        finally:
            self._is_working = False
            if self._waiting:
                defer(lambda: self._next(defer))
