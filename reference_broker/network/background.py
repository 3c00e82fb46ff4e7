"""Blocking work on other threads, mostly syncing to disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["BackgroundWork"]

#: There are several, so that one slow log does not hold up the others.
_THREADS = 4


class BackgroundWork:
    """Runs functions on a few threads, and reports the completion of each to the event loop.

    Threads are started on demand.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_killed = False

    def __call__(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `work` on a thread, then call `done` on the event loop with the error, or None."""
        self._running += 1
        self._idle.clear()

        def finished(future: asyncio.Future[None]) -> None:
            self._running -= 1
            try:
                # Work interrupted by a kill is not reported, since it may not have been done.
                if not (self._is_killed or future.cancelled()):
                    error = future.exception()
                    done(error if isinstance(error, Exception) else None)
            finally:
                if not self._running:
                    self._idle.set()

        asyncio.get_running_loop().run_in_executor(self._threads(), work).add_done_callback(finished)

    def each(self, works: Iterable[Callable[[], None]]) -> None:
        """Run pieces of work in parallel; may be called from any other thread. See `Each`."""
        for _ in self._threads().map(lambda work: work(), works):
            pass

    def _threads(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, "kafkawire-broker-background")
        return self._executor

    async def idle(self) -> None:
        """Wait until no work is running or waiting, including work started by other work."""
        while self._running:
            await self._idle.wait()
            await asyncio.sleep(0)

    def close(self) -> None:
        """End the threads after their current work."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)

    def kill(self) -> None:
        """End the threads as soon as possible, without reporting their work."""
        self._is_killed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
