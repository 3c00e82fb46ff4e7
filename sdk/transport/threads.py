"""Threads for what blocks: looking up names, reading certificates, asking for tickets and credentials.

asyncio's default executor is the application's. A program that keeps it busy would keep a client from connecting, and
its threads are waited for at the end of the loop and of the process, so that a silent name server would hold both. The
threads here are a few daemons, which nothing waits for, shared by all clients of the process.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Thread
from typing import Any, Final, Generic, TypeVar

from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.user_code import as_exception

__all__ = ["THREADS_MAX", "in_thread"]

Result = TypeVar("Result")

#: Threads at a time, in the whole process. A name server that does not answer holds one for each name, for 10 s or so;
#: a cluster of this many brokers with names of their own still finds all of them at once.
THREADS_MAX: Final = 32


class _Unwanted(Exception):
    """All that waited for it were cancelled before its turn, so it has not begun."""


class _Work(Generic[Result]):
    """A call that blocks, and those that wait for it."""

    def __init__(self, function: Callable[[], Result], key: Hashable) -> None:
        self.function = function
        self.key = key
        self.promise: Promise[Result] = Promise()
        self.waiting: set[object] = set()


class _Threads:
    """The threads of a process; those of its parent are not here after a fork.

    No lock: a signal handler may interrupt the holder, and wait for a client that would need it. Each step on the
    containers is whole by itself.
    """

    def __init__(self) -> None:
        self._free = deque([None] * THREADS_MAX)
        self._queue: deque[_Work[Any]] = deque()
        self._by_key: dict[Hashable, _Work[Any]] = {}

    async def result(self, function: Callable[[], Result], key: Hashable) -> Result:
        waiter = object()
        while True:
            new = _Work(function, key)
            work: _Work[Result] = new if key is None else self._by_key.setdefault(key, new)
            work.waiting.add(waiter)
            if work is new:
                self._begin(work)
            try:
                await _settled(work.promise)
                return work.promise.wait()
            except _Unwanted:
                continue  # its turn came just before this joined
            finally:
                work.waiting.discard(waiter)

    def _begin(self, work: _Work[Any]) -> None:
        self._queue.append(work)
        try:
            self._hire()
        except RuntimeError as error:  # too many in the system, or the interpreter is about to end
            if len(self._free) == THREADS_MAX:  # otherwise another thread takes it
                self._forget(work)
                work.promise.fail(OSError(f"no thread can be started: {error}"))

    def _hire(self) -> None:
        try:
            self._free.pop()
        except IndexError:
            return  # whichever thread is done first goes on with it
        try:
            Thread(target=self._run, name="kafkawire blocking", daemon=True).start()
        except BaseException:
            self._free.append(None)
            raise

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.popleft()
            except IndexError:
                break
            self._do(work)
        self._free.append(None)
        if self._queue:  # came after the last look
            self._hire()

    def _do(self, work: _Work[Any]) -> None:
        if not work.waiting:
            self._forget(work)
            work.promise.fail(_Unwanted())
            return
        try:
            result = work.function()
        except BaseException as error:
            self._forget(work)
            work.promise.fail(as_exception(error))
        else:
            self._forget(work)
            work.promise.keep(result)

    def _forget(self, work: _Work[Any]) -> None:
        if self._by_key.get(work.key) is work:
            self._by_key.pop(work.key, None)


async def _settled(promise: Promise[Any]) -> None:
    """Wait for a promise of a thread; also where gevent has made a greenlet of it, on the thread of the loop itself.

    Such a greenlet seems to run inside the loop, whose selector sleeps nevertheless: `call_soon_threadsafe` wakes it.
    """
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def set_result() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits on it any more
            loop.call_soon_threadsafe(set_result)

    promise.add_done_callback(wake)
    await woken


_threads = _Threads()


def _in_child() -> None:
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_in_child)


async def in_thread(function: Callable[[], Result], key: Hashable = None) -> Result:
    """Return what a function that blocks returns, without blocking the loop.

    If the caller is cancelled, a function that has not begun never does, and one that has begun goes on.

    Args:
        function: what to call on another thread.
        key: calls with the same key share one run, and its error; None not to share it.

    Raises:
        Exception: what the function raised.
        OSError: no thread can be started.
    """
    return await _threads.result(function, key)
