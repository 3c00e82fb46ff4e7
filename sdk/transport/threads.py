"""Threads for blocking calls: looking up names, reading certificates, requesting tickets and credentials.

asyncio's default executor belongs to the application. A program that keeps it busy would keep a client from connecting.
The loop and the process wait for its threads when they end, so a silent name server would delay both. The threads in
this module are a few daemons, shared by all clients in the process, for which nothing waits.
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

#: The maximum number of threads in the whole process. A silent name server occupies one per name, for about 10 s; the
#: names of a cluster with this many brokers can still be looked up concurrently.
THREADS_MAX: Final = 32


class _Unwanted(Exception):
    """All callers were cancelled before the work got its turn, so it never started."""


class _Work(Generic[Result]):
    """A blocking call and the callers waiting for it."""

    def __init__(self, function: Callable[[], Result], key: Hashable) -> None:
        self.function = function
        self.key = key
        self.promise: Promise[Result] = Promise()
        self.waiting: set[object] = set()


class _Threads:
    """The threads of a process; the parent's threads do not exist after a fork.

    There is no lock, because a signal handler might interrupt its holder and then wait for a client that needs it. Each
    step on the containers is atomic.
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
                continue  # its turn came just before this caller joined
            finally:
                work.waiting.discard(waiter)

    def _begin(self, work: _Work[Any]) -> None:
        self._queue.append(work)
        try:
            self._hire()
        except RuntimeError as error:  # the system has too many threads, or the interpreter is about to end
            if len(self._free) == THREADS_MAX:  # otherwise another thread takes the work
                self._forget(work)
                work.promise.fail(OSError(f"no thread can be started: {error}"))

    def _hire(self) -> None:
        try:
            self._free.pop()
        except IndexError:
            return  # the first idle thread takes the work
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
        if self._queue:  # work arrived after the last check
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
    """Wait for a thread's promise, even if gevent has turned the thread into a greenlet on the loop's own thread.

    Such a greenlet seems to run inside the loop, but the loop's selector is asleep, and `call_soon_threadsafe` wakes
    it.
    """
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def set_result() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed, so nothing on it is waiting now
            loop.call_soon_threadsafe(set_result)

    promise.add_done_callback(wake)
    await woken


_threads = _Threads()


def _in_child() -> None:
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_in_child)


async def in_thread(function: Callable[[], Result], key: Hashable = None) -> Result:
    """Return the result of a blocking function without blocking the loop.

    If the caller is cancelled, a function that has not started never runs, and one that has started continues.

    Args:
        function: the function to call on another thread.
        key: calls with the same key share one run and its error; None for a separate run.

    Raises:
        Exception: the error that the function raised.
        OSError: no thread can be started.
    """
    return await _threads.result(function, key)
