"""Notice that the event loop of a client has ended, for those who wait for the client elsewhere.

asyncio tells nobody that a loop is closed, and nothing that happens on it would end the wait. So a thread that blocks
looks now and then, and another event loop has a timer that looks. On the loop that drives the client nothing is needed:
what runs there has not ended. Nor is it for an I/O thread, which looks itself once its loop is closed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from time import monotonic
from typing import Protocol
from weakref import WeakSet

from kafkawire.sdk.transport import waiting
from kafkawire.sdk.transport.latch import Latch

__all__ = ["LOOK_SECONDS", "drop", "forget", "look", "look_from", "wait", "watch"]

#: Between two looks: no CPU worth mentioning, and an error that still comes soon.
LOOK_SECONDS = 0.5


class _Watched(Protocol):
    def check_loop(self) -> None:
        """End if the event loop has ended."""
        ...


_Table = dict[asyncio.AbstractEventLoop, dict[_Watched, None]]

#: What is driven, by its event loop. Strong references: somebody may wait for a client that nobody else holds.
_watched: _Table = {}
#: Likewise on I/O threads, apart from the others: to wait for one of these costs an event loop nothing.
_on_io_threads: _Table = {}

#: The event loops that look by a timer.
_looking: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def watch(thing: _Watched, loop: asyncio.AbstractEventLoop) -> None:
    """Call `thing.check_loop` soon after the loop has ended, if anybody waits, until `forget`."""
    look()  # a program that leaves a client behind on each loop keeps only the last one
    _table(loop).setdefault(loop, {})[thing] = None


def forget(thing: _Watched, loop: asyncio.AbstractEventLoop) -> None:
    """Watch it no longer: nothing that anybody could wait for is left."""
    table = _table(loop)
    things = table.get(loop)
    if things is not None:
        things.pop(thing, None)
        if not things:
            table.pop(loop, None)


def look() -> None:
    """Tell those whose event loops have ended; from any thread."""
    for table in (_watched, _on_io_threads):
        for loop in tuple(table):
            if loop.is_closed():
                for thing in tuple(table.pop(loop, ())):
                    thing.check_loop()


def drop(left_behind: Iterable[object]) -> None:
    """Close those coroutines of an ended loop that had not begun: Python would warn that nobody awaited them."""
    for work in left_behind:
        if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()


def wait(settled: Latch, timeout_seconds: float | None) -> bool:
    """Block this thread until the latch is set, looking meanwhile; return whether it was in time."""
    deadline = None if timeout_seconds is None else monotonic() + timeout_seconds
    while True:
        look()
        left_seconds = LOOK_SECONDS if deadline is None else deadline - monotonic()
        if settled.wait(min(left_seconds, LOOK_SECONDS)):
            return True
        if deadline is not None and left_seconds <= LOOK_SECONDS:
            return False


def look_from(loop: asyncio.AbstractEventLoop) -> None:
    """Have this running loop look while there are clients on others, because somebody here may wait for one of them."""
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
