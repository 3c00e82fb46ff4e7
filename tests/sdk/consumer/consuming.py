"""A consumer connected to a scripted broker that keeps batches and fails on demand, and functions to read with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.consumer.core import ConsumerCore
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.scripted_broker import BROKER, StoringBroker

__all__ = ["QUICK", "T", "consuming", "core_of", "read", "values"]

T = TopicPartition("t", 0)
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 5}


def values(count: int, start: int = 0) -> list[bytes]:
    """Return numbered values."""
    return [b"%04d" % number for number in range(start, start + count)]


def consuming(
    test: Callable[[StoringBroker, Consumer], Awaitable[None]], *topics: str, **options: Any
) -> StoringBroker:
    """Run a test with a broker whose topic t has three batches of ten records, and with a consumer of that topic."""
    broker_made: list[StoringBroker] = []

    async def run() -> None:
        broker = StoringBroker({"t": 1, "m": 4})
        broker_made.append(broker)
        for start in (0, 10, 20):
            broker.fill("t", *values(10, start))
        given = {**QUICK, **options}
        async with Consumer(str(BROKER), *(topics or ("t",)), network=broker.network, **given) as consumer:
            await test(broker, consumer)

    asyncio.run(run())
    return broker_made[0]


def core_of(consumer: Consumer) -> ConsumerCore:
    """Return the core of a started consumer."""
    assert consumer._core is not None
    return consumer._core


async def read(consumer: Consumer, count: int) -> list[Record]:
    """Return the next records."""
    found: list[Record] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found
