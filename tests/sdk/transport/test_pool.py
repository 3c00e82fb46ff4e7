"""One connection for each broker and purpose, opened once however many ask for it, and again when it was lost.

Method: the scripted broker counts the connections that it accepts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.errors import Closed, ConnectFailed
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.pool import ConnectionPool, Purpose
from tests.sdk.scripted_broker import BROKER, ScriptedBroker


def pooled(test: Callable[[ScriptedBroker, ConnectionPool], Awaitable[None]]) -> None:
    """Run a test with a broker and a pool."""

    async def run() -> None:
        broker = ScriptedBroker()
        pool = ConnectionPool(broker.network, ConnectionSettings())
        await test(broker, pool)
        await pool.close()

    asyncio.run(run())


def test_one_connection_for_all_who_ask() -> None:
    async def test(broker: ScriptedBroker, pool: ConnectionPool) -> None:
        first, second = await asyncio.gather(pool.get(BROKER), pool.get(BROKER))
        assert first is second is await pool.get(BROKER)
        assert await pool.get(BROKER, Purpose.GROUP) is not first
        assert len(broker.links) == 2

    pooled(test)


def test_a_lost_connection_is_replaced() -> None:
    async def test(broker: ScriptedBroker, pool: ConnectionPool) -> None:
        first = await pool.get(BROKER)
        broker.stop()
        await asyncio.sleep(0)
        with pytest.raises(ConnectFailed):
            await pool.get(BROKER)
        broker.start()
        assert await pool.get(BROKER) is not first

    pooled(test)


def test_close() -> None:
    async def test(broker: ScriptedBroker, pool: ConnectionPool) -> None:
        connection = await pool.get(BROKER)
        await pool.close()
        assert not connection.is_open
        with pytest.raises(Closed, match="the client was closed"):
            await pool.get(BROKER)

    pooled(test)
