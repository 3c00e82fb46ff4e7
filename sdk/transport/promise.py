"""The result of a request from a client to its driver; any event loop can await it, and any thread can wait for it.

If no event loop runs, awaiting a promise blocks its thread (`waiting.py` says why).

The driver settles a promise once. The side that waits may be another thread, or a signal handler that interrupted the
driver in this code, so there is no lock. Everything that a client's methods return, except records and deliveries,
passes between the two sides as a promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar, cast

from kafkawire.sdk.errors import KafkaWireError, RequestTimedOut
from kafkawire.sdk.transport import loop_watch
from kafkawire.sdk.transport.latch import Latch
from kafkawire.sdk.transport.watchers import Watchers

__all__ = ["Promise", "wake_future"]

Result = TypeVar("Result")


class Promise(Generic[Result]):
    """A result that may not exist yet.

    Args:
        on_cancel: called when an await of the promise is cancelled, or interrupted by a signal handler that raises;
            None for no effect.
    """

    __slots__ = ("_callbacks", "_on_cancel", "_settled")

    def __init__(self, on_cancel: Callable[[], None] | None = None) -> None:
        self._on_cancel = on_cancel
        self._callbacks: Watchers[Callable[[], object]] = Watchers()
        #: Once the promise is settled, the result and the error, one of them None; the first caller to store them here
        #: settles it.
        self._settled: dict[None, tuple[Result | None, Exception | None]] = {}

    @property
    def done(self) -> bool:
        """Whether the promise has a result or an error."""
        return bool(self._settled)

    @property
    def is_kept(self) -> bool:
        """Whether the promise has a result and no error."""
        return self.done and self._settled[None][1] is None

    def keep(self, result: Result) -> None:
        """Settle the promise with a result; do nothing if it is already settled."""
        self._settle(result, None)

    def fail(self, error: Exception) -> None:
        """Settle the promise with an error; do nothing if it is already settled."""
        self._settle(None, error)

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` once the promise is settled, on the side that settles it, or now if it is already settled."""
        place = self._callbacks.add(callback)
        if self._settled and self._callbacks.take_back(place):
            callback()

    def __await__(self) -> Generator[Any, None, Result]:
        if not self.done:
            loop = asyncio._get_running_loop()
            try:
                if loop is None:
                    self._block(None)
                else:
                    yield from self._future(loop).__await__()
            except BaseException:  # such as `CancelledError` or, without a loop, `KeyboardInterrupt`
                if self._on_cancel is not None and not self.done:
                    self._on_cancel()
                raise
        return self._outcome()

    async def within(self, timeout_ms: int | None) -> bool:
        """Wait up to a limit, None for no limit, and return whether the promise was settled in time."""
        if self.done:
            return True
        loop = asyncio._get_running_loop()
        if timeout_ms is None:
            if loop is None:
                return self._block(None)
            await self._future(loop)
            return True
        timeout_seconds = max(timeout_ms, 0) / 1000
        if loop is None:
            return self._block(timeout_seconds)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._future(loop)
        except TimeoutError:
            return self.done
        return True

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Block this thread until the promise is settled.

        Raises:
            RequestTimedOut: the promise was not settled in time.
        """
        if not self.done and not self._block(timeout_seconds):
            raise RequestTimedOut(f"no result within {timeout_seconds} s")
        return self._outcome()

    def _block(self, timeout_seconds: float | None) -> bool:
        settled = Latch()
        self.add_done_callback(settled.set)
        return loop_watch.wait(settled, timeout_seconds)

    def _future(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that ends when the promise is settled."""
        settled: asyncio.Future[None] = loop.create_future()
        self.add_done_callback(partial(wake_future, loop, settled))
        loop_watch.look_from(loop)
        return settled

    def _settle(self, result: Result | None, error: Exception | None) -> None:
        settled = result, error
        if self._settled.setdefault(None, settled) is settled:
            for callback in self._callbacks.take():
                callback()

    def _outcome(self) -> Result:
        result, error = self._settled[None]
        if error is not None:
            raise error.again() if isinstance(error, KafkaWireError) else error
        return cast("Result", result)


def wake_future(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Complete a future of a loop; can be called from any thread."""
    if asyncio._get_running_loop() is not loop:
        with suppress(RuntimeError):  # the loop was closed, so nothing on it is waiting now
            loop.call_soon_threadsafe(wake_future, loop, future)
    elif not future.done():
        future.set_result(None)
