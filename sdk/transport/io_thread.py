"""A thread with an event loop, for clients whose caller has no loop, or blocks it.

A daemon: a program that ends without closing its clients does not hang. Whatever is unsettled then is lost, as it would
be if the process was killed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Thread, current_thread

from kafkawire.sdk.transport import loop_watch, waiting
from kafkawire.sdk.transport.latch import Latch

__all__ = ["STOP_SECONDS", "IoThread"]

#: For the last things of a loop, cancelled tasks and closed connections, which take some ms.
STOP_SECONDS = 2.0

#: `join` holds a lock in lines of Python: a signal handler that interrupts it there waits for itself so long.
_JOIN_SECONDS = 0.2


class IoThread:
    """An event loop that runs on a thread of its own from the start.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str = "kafkawire") -> None:
        self.loop = asyncio.new_event_loop()
        waiting.io_loops.add(self.loop)
        self._ended = Latch()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, limit_seconds: float = STOP_SECONDS) -> None:
        """Cancel the tasks of the loop, and end it and its thread; may be called more than once.

        A thread that does not end within the limit is left behind: what it waits for may be held by this one, if a
        signal handler has interrupted it.
        """
        with suppress(RuntimeError):  # it was closed meanwhile
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not current_thread() and self._ended.wait(limit_seconds):
            self._thread.join(_JOIN_SECONDS)  # it has nothing left to do

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            try:
                self._end()
            finally:
                self._ended.set()

    def _end(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        loop_watch.look()
