"""A latch: threads wait until it is set, once.

`threading.Event` holds a lock in lines of Python, where a signal handler may come in between: a handler that waits for
the thread which sets the same event would wait for ever. A latch is one lock that is released when it is set, and held
by nobody for longer than one call of C.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

__all__ = ["Latch"]


class Latch:
    """Begins unset; any thread sets it, and any number of them wait."""

    __slots__ = ("_gate", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._gate = Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Let all threads pass that wait, now or later."""
        self.is_set = True
        self._open()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block this thread until it is set; return whether it was in time."""
        if not self.is_set and self._gate.acquire(timeout=-1 if timeout_seconds is None else max(timeout_seconds, 0)):
            self._open()  # for the next one
        return self.is_set

    def _open(self) -> None:
        with suppress(RuntimeError):  # another thread has done so
            self._gate.release()
