"""A task of a client begins in a later turn, whatever the task factory of the loop does.

Method: a factory that must not be used; `asyncio.eager_task_factory` of Python 3.12, which begins each task at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kafkawire.sdk.transport.tasks import new_task


def test_it_begins_later() -> None:
    steps: list[str] = []

    async def work() -> str:
        steps.append("begun")
        return "done"

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the factory was asked")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(refuse)
        task = new_task(loop, work())
        steps.append("returned")
        assert await task == "done"
        assert steps == ["returned", "begun"]
        loop.set_task_factory(None)

    asyncio.run(run())
