"""Notice that a client's event loop has ended while other threads or loops wait for the client.

asyncio does not report that a loop is closed, and no event on that loop would end the wait. Therefore a blocked thread
checks from time to time, and another event loop checks with a timer. The loop that drives the client needs no check,
because code running on it proves that it has not ended. Nor does an I/O thread, which checks once its loop is closed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

from kafkawire.sdk.clock import monotonic_seconds
from kafkawire.sdk.transport import waiting
from kafkawire.sdk.transport.latch import Latch

__all__ = ["LOOK_SECONDS", "drop", "forget", "look", "look_from", "wait", "watch"]

#: Interval between checks: they take negligible CPU time, and an error is still raised soon.
LOOK_SECONDS = 0.5


class _Watched(Protocol):
    def check_loop(self) -> None:
        """End the client if its event loop has ended."""
        ...


_Table = dict[asyncio.AbstractEventLoop, dict[_Watched, None]]

#: Drivers, keyed by event loop. The references are strong, because a caller may wait for a client to which nothing else
#: refers.
_watched: _Table = {}
#: The same for I/O threads, kept separate because event loops need not check these.
_on_io_threads: _Table = {}

#: The event loops that check with a timer.
_looking: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def watch(thing: _Watched, loop: asyncio.AbstractEventLoop) -> None:
    """Have `thing.check_loop` called soon after the loop has ended if a caller is waiting; `forget` cancels this."""
    look()  # this way, a program that abandons a client on each of its loops keeps only the last one
    _table(loop).setdefault(loop, {})[thing] = None


def forget(thing: _Watched, loop: asyncio.AbstractEventLoop) -> None:
    """Stop watching a driver for which nothing is left to wait."""
    table = _table(loop)
    things = table.get(loop)
    if things is not None:
        things.pop(thing, None)
        if not things:
            table.pop(loop, None)


def look() -> None:
    """Notify the drivers whose event loops have ended; can be called from any thread."""
    for table in (_watched, _on_io_threads):
        for loop in tuple(table):
            if loop.is_closed():
                for thing in tuple(table.pop(loop, ())):
                    thing.check_loop()


def drop(left_behind: Iterable[object]) -> None:
    """Close the coroutines that never started on a loop that has ended, because Python would warn about them."""
    for work in left_behind:
        if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()


def wait(settled: Latch, timeout_seconds: float | None) -> bool:
    """Block this thread until the latch is set, checking the loops while waiting; return False after a timeout."""
    deadline = None if timeout_seconds is None else monotonic_seconds() + timeout_seconds
    while True:
        look()
        left_seconds = LOOK_SECONDS if deadline is None else deadline - monotonic_seconds()
        if settled.wait(min(left_seconds, LOOK_SECONDS)):
            return True
        if deadline is not None and left_seconds <= LOOK_SECONDS:
            return False


def look_from(loop: asyncio.AbstractEventLoop) -> None:
    """Make this loop check while there are clients on other loops, because a task here may wait for them."""
    if _is_alone(loop):
        return
    look()
    if not _is_alone(loop) and loop not in _looking:
        _looking.add(loop)
        loop.call_later(LOOK_SECONDS, _look_again, loop)


def _look_again(loop: asyncio.AbstractEventLoop) -> None:
    _looking.discard(loop)
    look_from(loop)


def _is_alone(loop: asyncio.AbstractEventLoop) -> bool:
    return len(_watched) == (loop in _watched)


def _table(loop: asyncio.AbstractEventLoop) -> _Table:
    return _on_io_threads if loop in waiting.io_loops else _watched
