"""A task of a client begins in a later turn, whatever the task factory of the loop does.

Method: a factory that runs the first step of each task at once, as `asyncio.eager_task_factory` does (Python 3.12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kafkawire.sdk.transport.tasks import new_task


def test_it_begins_later() -> None:
    steps: list[str] = []

    async def work() -> str:
        steps.append("begun")
        return "done"

    def eager(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, str], **_: Any) -> asyncio.Future[str]:
        future = loop.create_future()
        try:
            coroutine.send(None)
        except StopIteration as end:
            future.set_result(end.value)
        return future

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(eager)  # type: ignore[arg-type]  # a future is enough for it
        assert loop.create_task(work()).done()
        task = new_task(loop, work())
        steps.append("returned")
        assert await task == "done"
        assert steps == ["begun", "returned", "begun"]

    asyncio.run(run())
