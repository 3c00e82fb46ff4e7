"""Wait by awaiting if an event loop is running, otherwise by blocking the thread.

The asyncio clients are written once, as coroutines that await promises. `result_of` runs such a coroutine for a
blocking client (`kafkawire.sync`): no loop is running then, so each promise blocks, and the coroutine never suspends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["FAIR_MS", "YieldTimer", "check_may_block", "driving", "io_loops", "result_of", "yield_to_loop"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

#: How long a program that awaits, but never has to wait, may keep an event loop from other work: short compared with a
#: heartbeat interval or a noticeable delay, and long compared with a turn, which takes about 20 µs.
FAIR_MS: Final = 10

#: The number of event loop iterations that complete everything that is due: the first one finds timers and sockets, but
#: runs their callbacks only after the yielding task has yielded again; the next one runs what those callbacks
#: scheduled, such as a turn of a driver, whose requests are sent immediately.
_ITERATIONS: Final = 3

#: The event loops of I/O threads, on which everything happens that a blocking client waits for.
io_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

#: The event loops that drive clients, including those of I/O threads.
driving: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def result_of(
    function: Callable[Given, Coroutine[Any, Any, Result]], *arguments: Given.args, **named: Given.kwargs
) -> Result:
    """Run a coroutine function that awaits only promises, blocking this thread, and return its result.

    Raises:
        LocalProtocolError: this is an I/O thread, for which the coroutine would have to wait.
    """
    loop = asyncio._get_running_loop()
    if loop is not None:
        check_may_block(io_loops)
    try:
        if loop is not None:
            asyncio._set_running_loop(None)  # the caller blocks its loop, as notebooks do
        work = function(*arguments, **named)
        try:
            work.send(None)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            work.close()
        raise AssertionError(f"{work!r} awaited something other than a promise")
    finally:
        if loop is not None:
            asyncio._set_running_loop(loop)


async def yield_to_loop() -> None:
    """Let a driver on this event loop take a turn; a driver with its own thread needs no help."""
    if asyncio._get_running_loop() is not None:
        await asyncio.sleep(0)


class YieldTimer:
    """Yields to the event loop on behalf of a reader that always finds records and so never waits."""

    __slots__ = ("_due_ms",)

    def __init__(self) -> None:
        self._due_ms = 0

    def is_due(self) -> bool:
        """Return whether this reader has kept the event loop busy for `FAIR_MS`."""
        return monotonic_ms() >= self._due_ms

    async def yield_now(self) -> None:
        """Let everything that is due (timers, sockets, other tasks) proceed, and the resulting requests be sent."""
        for _ in range(_ITERATIONS):
            await yield_to_loop()
        self._due_ms = monotonic_ms() + FAIR_MS


def check_may_block(loops: Container[asyncio.AbstractEventLoop | None]) -> None:
    """Refuse to block a thread that runs one of these event loops, because the result would never arrive.

    Raises:
        LocalProtocolError: one of these loops is running on this thread.
    """
    if asyncio._get_running_loop() in loops:
        raise LocalProtocolError(
            "this call would block the event loop that it waits for: await instead or, in a delivery callback or an "
            "interceptor, leave the call to another thread"
        )
