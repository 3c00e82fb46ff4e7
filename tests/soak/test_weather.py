"""The simulated weather is as bad as requested, and the broker survives it."""

from __future__ import annotations

import asyncio
import signal
from random import Random

import pytest

from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.wire import Address
from tests.sdk.transport.responses import response_to
from tools.soak.weather import BrokerProcess, StormyNetwork


async def _ask(network: StormyNetwork, broker: BrokerProcess) -> BrokerConnection:
    host, port = broker.bootstrap.split(":")
    connection = await BrokerConnection.open(network, Address(host, int(port)), ConnectionSettings())
    assert isinstance(await response_to(connection, MetadataRequest(None), MetadataResponse), MetadataResponse)
    return connection


def ask(network: StormyNetwork, broker: BrokerProcess) -> None:
    """Request metadata on a new connection."""

    async def run() -> None:
        (await _ask(network, broker)).close()
        await asyncio.sleep(0)  # the socket is closed one loop iteration later

    asyncio.run(run())


def test_a_broker_is_stopped_continued_and_killed() -> None:
    network = StormyNetwork(Random(1))
    with BrokerProcess() as broker:
        ask(network, broker)
        broker.signal(signal.SIGSTOP)
        broker.signal(signal.SIGCONT)
        ask(network, broker)
        broker.kill()
        broker.start()
        ask(network, broker)
    assert network.opened == 3
    assert network.requests[ApiKey.METADATA] == 3


def test_connections_are_cut_and_refused() -> None:
    async def test(broker: BrokerProcess) -> None:
        network = StormyNetwork(Random(1))
        connection = await _ask(network, broker)
        ended = asyncio.Event()
        connection.on_end = lambda error: ended.set()
        network.cut()
        await asyncio.wait_for(ended.wait(), 10)
        network.storm = 1
        with pytest.raises(ConnectionRefusedError):
            await network.open(Address("127.0.0.1", 1), lambda wire: connection)

    with BrokerProcess() as broker:
        asyncio.run(test(broker))
