"""Tasks that start in a later turn of their event loop, regardless of its task factory.

With `asyncio.eager_task_factory`, a new task runs immediately, inside the code that creates it. That code may be a
machine in the middle of a step, or may not have stored the task yet, so clients create their background tasks here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["new_task"]

Result = TypeVar("Result")


def new_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Return a task that has not started; must be called on the thread of its loop."""
    return asyncio.Task(work, loop=loop)
