"""A consumer detects that a crash has truncated the log below its position, and reads the records written there since.

Method: kill a broker, remove the end of its log as in a power cut, and write other records before the consumer fetches
again. Without the consumer's own leader epoch, the new log would look like a continuation of the old one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kafkawire import Consumer, Producer
from kafkawire.testing import Broker

TIMEOUT_SECONDS = 60
LOST_BYTES = 3


async def write(bootstrap: str, name: str, first: int, end: int) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(first, end):
            await producer.send("t", f"{name} {number}", partition=0)


async def read(consumer: Consumer, last: str) -> list[tuple[int, str]]:
    """Return the offsets and values of the records up to a given value."""
    found: list[tuple[int, str]] = []
    async for record in consumer:
        found.append((record.offset, bytes(record.value or b"").decode()))
        if found[-1][1] == last:
            return found
    return found


async def scenario(broker: Broker, log: Path) -> list[tuple[int, str]]:
    await write(broker.bootstrap, "old", 0, 10)
    async with Consumer(broker.bootstrap, "t", auto_offset_reset="earliest") as consumer:
        assert len(await read(consumer, "old 9")) == 10
        await asyncio.to_thread(broker.kill)
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size * 7 // 10 - LOST_BYTES)
        await asyncio.to_thread(broker.start)
        await write(broker.bootstrap, "new", 6, 16)
        return await read(consumer, "new 15")


def test_consumer_goes_back_to_where_the_log_was_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(tmp_path) as broker:
        found = asyncio.run(asyncio.wait_for(scenario(broker, tmp_path / "t-0" / f"{0:020}.log"), TIMEOUT_SECONDS))
    assert found == [(number, f"new {number}") for number in range(6, 16)]
    assert "the log was truncated before offset 10, to 6" in caplog.text
