"""A thread with an event loop, for clients whose caller has no loop or blocks it.

It is a daemon thread, so a program that ends without closing its clients does not hang. Unsettled work is then lost, as
if the process had been killed.
"""

from __future__ import annotations

import _thread
import asyncio
import selectors
from contextlib import suppress
from threading import Thread, current_thread

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.transport import loop_watch, waiting
from kafkawire.sdk.transport.latch import Latch
from kafkawire.sdk.transport.log_lines import begin_io_thread, end_io_thread
from kafkawire.sdk.transport.own_loop import own_loop

__all__ = ["STOP_SECONDS", "IoThread", "check_threads"]

#: Time limit for stopping a loop; cancelling tasks and closing connections takes a few ms.
STOP_SECONDS = 2.0

#: Time limit for `join`, which holds a lock while Python code runs: a signal handler that interrupts it would wait for
#: itself.
_JOIN_SECONDS = 0.2

#: For each package, the call that makes its monkey patching keep Python's threads and selectors.
_REMEDIES = {
    "gevent": "gevent.monkey.patch_all(thread=False, select=False)",
    "eventlet": "eventlet.monkey_patch(thread=False)",
}


def check_threads() -> None:
    """Refuse to start a thread that would be a greenlet, since its event loop and other greenlets would block.

    Raises:
        LocalProtocolError: monkey patching has replaced Python's threads, or the selectors that the loop uses.
    """
    for replaced in (_thread.start_new_thread, selectors.DefaultSelector):
        package = replaced.__module__.partition(".")[0]
        if (remedy := _REMEDIES.get(package)) is not None:
            raise LocalProtocolError(
                f"{package} has replaced Python's threads or selectors, and an I/O thread needs them: patch with "
                f'{remedy}, or use the asyncio clients with io="loop"'
            )


class IoThread:
    """An event loop that runs on its own thread from the moment it is created.

    Args:
        name: the name of the thread.

    Raises:
        LocalProtocolError: threads are greenlets here; see `check_threads`.
    """

    def __init__(self, name: str = "kafkawire") -> None:
        check_threads()
        self.loop = own_loop()
        waiting.io_loops.add(self.loop)
        self._ended = Latch()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, limit_seconds: float = STOP_SECONDS) -> None:
        """Cancel the loop's tasks, and end the loop and its thread; can be called more than once.

        A thread that does not end within the limit is abandoned: if a signal handler interrupted this thread, the other
        one may be waiting for a resource that this thread holds.
        """
        with suppress(RuntimeError):  # it was closed in the meantime
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not current_thread() and self._ended.wait(limit_seconds):
            self._thread.join(_JOIN_SECONDS)  # it has nothing left to do

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        begin_io_thread()
        try:
            self.loop.run_forever()
        finally:
            try:
                self._end()
            finally:
                end_io_thread()
                self._ended.set()

    def _end(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        loop_watch.look()
