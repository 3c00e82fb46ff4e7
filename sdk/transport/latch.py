"""A latch: threads wait until it is set, which happens once.

`threading.Event` holds a lock while Python code runs, which a signal handler may interrupt: a handler that waits for
the thread that sets the event would wait forever. Here each thread waits for a lock of its own, which is released when
the latch is set, so a thread interrupted by Ctrl-C holds no lock that another thread is waiting for.
"""

from __future__ import annotations

from threading import Lock

from kafkawire.sdk.transport.watchers import Watchers

__all__ = ["Latch"]


class Latch:
    """A latch that starts out unset; any thread may set it, and any number of threads may wait."""

    __slots__ = ("_waiting", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: Watchers[Lock] = Watchers()

    def set(self) -> None:
        """Release all threads that are waiting now or will wait later."""
        self.is_set = True
        for gate in self._waiting.take():
            gate.release()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block this thread until the latch is set; return False after a timeout."""
        if self.is_set:
            return True
        gate = Lock()
        gate.acquire()
        place = self._waiting.add(gate)
        if not self.is_set:  # otherwise it was set before it knew about this thread
            gate.acquire(timeout=-1 if timeout_seconds is None else max(timeout_seconds, 0))
        self._waiting.take_back(place)
        return self.is_set
