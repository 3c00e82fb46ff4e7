"""Waiting, chance and joining of callers, for the parts that run on an event loop without importing one.

`client/` is free of `asyncio`, `time` and `random`; what its asynchronous part needs of them stands here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Hashable
from typing import Generic, TypeVar

__all__ = ["SingleFlight", "random_fraction", "sleep_ms"]

Result = TypeVar("Result")


async def sleep_ms(duration_ms: float) -> None:
    """Let `duration_ms` milliseconds pass."""
    await asyncio.sleep(duration_ms / 1000)


def random_fraction() -> float:
    """Return a number from 0 up to 1, for jitter."""
    return random.random()


class SingleFlight(Generic[Result]):
    """Run one operation a key at a time; callers that come meanwhile get the result of the one that runs."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Result]] = {}

    async def run(self, key: Hashable, operation: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Return the result of `operation`, started now unless one with the same key runs already.

        A caller that is cancelled leaves the operation to the others.
        """
        task = self._running.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(operation())
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel what runs and wait until it ended."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, key: Hashable, task: asyncio.Task[Result]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # its callers have it; without one, nobody is left to tell
