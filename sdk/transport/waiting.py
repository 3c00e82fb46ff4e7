"""Wait in the way of the caller: where an event loop runs, by awaiting; where none does, by blocking the thread.

The faces for asyncio are written once, as coroutines that await promises. `result_of` runs such a coroutine for a
blocking face (`kafkawire.sync`): no loop runs then, so each promise blocks, and the coroutine never suspends.
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

#: How long a program that awaits, but never has to wait, keeps an event loop from everything else: short beside a
#: heartbeat interval and a delay that people notice, long beside a turn, which takes some 20 µs.
FAIR_MS: Final = 10

#: Iterations of an event loop in which what is due comes through: the first finds timers and sockets, and runs their
#: callbacks only after the task that gave the turn has given another; the one after runs what these have scheduled,
#: such as the turn of a driver, whose requests leave at once.
_ITERATIONS: Final = 3

#: The event loops of I/O threads: all that a blocking client waits for happens there.
io_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

#: The event loops that clients are driven on, those of I/O threads included.
driving: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def result_of(
    function: Callable[Given, Coroutine[Any, Any, Result]], *arguments: Given.args, **named: Given.kwargs
) -> Result:
    """Run a coroutine function that awaits promises only, blocking this thread; return what it returns.

    Raises:
        LocalProtocolError: this is an I/O thread, for which the coroutine would wait.
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
    """Let a driver on this event loop take a turn; one with a thread of its own needs no help."""
    if asyncio._get_running_loop() is not None:
        await asyncio.sleep(0)


class YieldTimer:
    """When a reader that always finds something, and so never waits, yields to its event loop."""

    __slots__ = ("_due_ms",)

    def __init__(self) -> None:
        self._due_ms = 0

    def is_due(self) -> bool:
        """Return whether the event loop had no turn from here for `FAIR_MS`."""
        return monotonic_ms() >= self._due_ms

    async def yield_now(self) -> None:
        """Let timers, sockets and other tasks go on: all that is due now, and what that has to send."""
        for _ in range(_ITERATIONS):
            await yield_to_loop()
        self._due_ms = monotonic_ms() + FAIR_MS


def check_may_block(loops: Container[asyncio.AbstractEventLoop | None]) -> None:
    """Refuse to block a thread on which one of these event loops runs: what is waited for would never come.

    Raises:
        LocalProtocolError: one of them does.
    """
    if asyncio._get_running_loop() in loops:
        raise LocalProtocolError(
            "this call would block the event loop that it waits for: await instead, or leave it to another thread if "
            "this is a callback of a delivery or an interceptor"
        )
