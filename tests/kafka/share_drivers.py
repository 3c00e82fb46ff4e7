"""Share consumers of the Java client and of this project, driven by the same commands.

A program reads a JSON command from each line of standard input: `id`, `member`, `do` and what that needs. It answers
each with a line that has the `id`, and a `result` or an `error`. Each member follows its commands in order.

    open         topics, group, mode, acquire, records    open a consumer, with its options
    poll         count, ms                                 read until there are so many records, or the time is over
    acknowledge  kinds: {place: ACCEPT|RELEASE|REJECT}     acknowledge records; a place is TOPIC/PARTITION/OFFSET
    renew        places                                    renew locks, and wait for the outcome
    commit                                                 send acknowledgements, and wait for the outcomes
    subscribe    topics                                    replace the subscription
    close                                                  leave the group
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.kafka.programs import javas_share_members

__all__ = ["DRIVERS", "Refused", "ShareProgram"]

_ROOT = Path(__file__).parents[2]


def _own() -> list[str]:
    return [sys.executable, "-m", "tests.kafka.clients.python.share_members"]


#: How to start each client's program, by name.
DRIVERS = {"java": javas_share_members, "kafkawire": _own}


class Refused(Exception):
    """A command ended with an error, whose name is the only argument."""


class ShareProgram:
    """A program with share consumers.

    Args:
        driver: one of `DRIVERS`.
        bootstrap: the broker.
    """

    def __init__(self, driver: str, bootstrap: str) -> None:
        self._driver = driver
        self._bootstrap = bootstrap
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ids = count()
        self._asked: dict[int, asyncio.Future[Any]] = {}

    def another(self) -> ShareProgram:
        """Return a program with the same client on the same broker, in a process of its own."""
        return ShareProgram(self._driver, self._bootstrap)

    async def tell(self, member: str, do: str, **what: Any) -> Any:
        """Have a member follow a command, and return the result.

        Raises:
            Refused: it ended with an error.
        """
        process = await self._started()
        assert process.stdin is not None, "it is a pipe"
        number = next(self._ids)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        process.stdin.write(json.dumps({"id": number, "member": member, "do": do, **what}).encode() + b"\n")
        await process.stdin.drain()
        return await asked

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *DRIVERS[self._driver](),
                self._bootstrap,
                cwd=_ROOT,
                stdin=pipe,
                stdout=pipe,
                stderr=asyncio.subprocess.DEVNULL,
            )
            self._reading = asyncio.create_task(self._read(self._process))
        return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "it is a pipe"
        while line := await process.stdout.readline():
            if not line.startswith(b"{"):  # a line of Java's log
                continue
            answer = json.loads(line)
            asked = self._asked.pop(answer["id"])
            if asked.cancelled():
                continue
            if "error" in answer:
                asked.set_exception(Refused(answer["error"]))
            else:
                asked.set_result(answer["result"])
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(Refused("the program has ended"))

    async def kill(self) -> None:
        """Kill the program and all of its members."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading
