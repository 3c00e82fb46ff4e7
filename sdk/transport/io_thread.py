"""A thread with an event loop, for clients whose caller has no loop, or blocks it.

A daemon: a program that ends without closing its clients does not hang. Whatever is unsettled then is lost, as it would
be if the process was killed.
"""

from __future__ import annotations

import asyncio
from threading import Thread, current_thread

from kafkawire.sdk.transport import loop_watch, waiting

__all__ = ["IoThread"]


class IoThread:
    """An event loop that runs on a thread of its own from the start.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str = "kafkawire") -> None:
        self.loop = asyncio.new_event_loop()
        waiting.io_loops.add(self.loop)
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancel the tasks of the loop, and end it and its thread; may be called more than once."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
            loop_watch.look()
