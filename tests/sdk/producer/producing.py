"""A producer connected to a broker that stores what it receives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkawire.sdk.producer.core import ProducerCore
from kafkawire.sdk.producer.producer import Producer
from tests.sdk.scripted_broker import BROKER, StoringBroker

__all__ = ["QUICK", "core_of", "producing"]

QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


def producing(test: Callable[[StoringBroker, Producer], Awaitable[None]], **options: Any) -> None:
    """Run a test with a producer, and with a broker that has topics t (one partition) and m (four)."""

    async def run() -> None:
        broker = StoringBroker({"t": 1, "m": 4})
        async with Producer(str(BROKER), network=broker.network, **{**QUICK, **options}) as producer:
            await test(broker, producer)

    asyncio.run(run())


def core_of(producer: Producer) -> ProducerCore:
    """Return the core of a started producer."""
    assert producer._core
    return producer._core
