"""Helpers for the troubleshooting tests: keep a time limit, create topics, read records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kafkawire import Consumer, NewTopic
from tests.kafka import topics
from tests.kafka.servers import Server

__all__ = ["create", "on", "values"]

TIMEOUT_SECONDS = 60

Test = Callable[[str], Awaitable[None]]


def on(either: Server, test: Test) -> None:
    """Run a test with a broker's address, within the time limit."""

    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await test(either.bootstrap)

    asyncio.run(limited())


async def create(bootstrap: str, *names: str, partitions: int = 1, **configs: str) -> None:
    """Create topics."""
    await topics.create(bootstrap, *(NewTopic(name, partitions, 1, configs) for name in names))


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    """Return the values of the next records."""
    found = []
    async for record in consumer:
        found.append(record.value)
        if len(found) == count:
            break
    return found
