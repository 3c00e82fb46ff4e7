"""A latch: threads wait until it is set, once.

`threading.Event` holds a lock in lines of Python, where a signal handler may come in between: a handler that waits for
the thread which sets the same event would wait for ever. Here each thread waits for a lock of its own, which is
released when the latch is set: a thread that Ctrl-C interrupts leaves nothing that another one waits for.
"""

from __future__ import annotations

from threading import Lock

from kafkawire.sdk.transport.watchers import Watchers

__all__ = ["Latch"]


class Latch:
    """Begins unset; any thread sets it, and any number of them wait."""

    __slots__ = ("_waiting", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: Watchers[Lock] = Watchers()

    def set(self) -> None:
        """Let all threads pass that wait, now or later."""
        self.is_set = True
        for gate in self._waiting.take():
            gate.release()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block this thread until it is set; return whether it was in time."""
        if self.is_set:
            return True
        gate = Lock()
        gate.acquire()
        place = self._waiting.add(gate)
        if not self.is_set:  # otherwise it was set before, and does not know of this thread
            gate.acquire(timeout=-1 if timeout_seconds is None else max(timeout_seconds, 0))
        self._waiting.take_back(place)
        return self.is_set
