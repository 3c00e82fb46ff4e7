"""A client's task starts in a later loop iteration, whatever the loop's task factory.

Method: install a factory that must not be used, then Python 3.12's `asyncio.eager_task_factory`, which starts each task
immediately.
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
