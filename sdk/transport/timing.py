"""Sleeping, random numbers and shared operations, for code that must not import asyncio, time or random.

`client/` and `routing/` import none of these; this module provides what their asynchronous parts need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from os import urandom
from typing import Any, Generic, TypeVar, cast

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.transport.tasks import new_task

__all__ = ["SingleFlight", "random_fraction", "random_text", "sleep_ms", "together"]

Result = TypeVar("Result")

#: Number of random bytes in a string that must be unguessable.
_TEXT_BYTES = 18

#: The number of whole bytes in the precision of a float.
_FRACTION_BYTES = 6


def random_fraction() -> float:
    """Return a random number in [0, 1), for jitter."""
    # importing `random` would take longer than computing all of a client's jitter
    return int.from_bytes(urandom(_FRACTION_BYTES), "big") / (1 << 8 * _FRACTION_BYTES)


def random_text() -> str:
    """Return an unguessable random string of hexadecimal digits, for nonces."""
    return urandom(_TEXT_BYTES).hex()


async def sleep_ms(duration_ms: float) -> None:
    """Sleep for `duration_ms` milliseconds."""
    await asyncio.sleep(duration_ms / 1000)


async def together(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run coroutines concurrently and return their results.

    Raises:
        Exception: the first error that one of them raised, once all of them have ended.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[Result]", results)


class SingleFlight(Generic[Result]):
    """Run one operation per key at a time; callers that arrive in the meantime share its result."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Result]] = {}

    async def run(self, key: Hashable, operation: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Return the result of `operation`, or of an operation with the same key that is already running.

        Cancelling a caller does not cancel the operation. Each caller gets a separate error.
        """
        task = self._running.get(key)
        if task is None:
            task = new_task(asyncio.get_running_loop(), operation())
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        # Not `shield`: from Python 3.14 on it reports the error of an operation whose caller was cancelled.
        await asyncio.wait((task,))
        error = task.exception()
        if isinstance(error, KafkaWireError):
            raise error.again()
        return task.result()

    async def close(self) -> None:
        """Cancel running operations and wait for them to end."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, key: Hashable, task: asyncio.Task[Result]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # marks the error as retrieved: the callers have it or were cancelled
