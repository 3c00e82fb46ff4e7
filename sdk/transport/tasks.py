"""Tasks that begin in a later turn of their event loop, with any task factory.

With `asyncio.eager_task_factory` a new task runs at once, inside the code that creates it. That may be a machine in the
middle of a step, or code that has not stored the task yet, so the background tasks of clients are created here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["new_task"]

Result = TypeVar("Result")


def new_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Return a task that has not begun; must be called on the thread of its loop."""
    return asyncio.Task(work, loop=loop)
