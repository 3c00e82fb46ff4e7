"""Links work over real connections: they send requests in any version, survive ended connections, and can be closed.

Method: use the scripted in-memory broker on the test's event loop; its responses are correct, missing or damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.reference_broker.network.broker_links import BrokerLinks
from kafkawire.sdk.errors import Closed, ConnectFailed, ConnectionLost, KafkaWireError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.call import Node, Purpose
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.wire import Address
from tests.sdk.scripted_broker import BROKER, ScriptedBroker

PATIENCE_SECONDS = 10


class Running:
    """Active links, and the defects that they have reported."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.defects: list[KafkaWireError] = []
        self.outcomes: list[Message | Exception] = []
        loop = asyncio.get_running_loop()
        self.whole = BrokerLinks(
            broker.network,
            ConnectionSettings(connect_timeout_ms=1_000, request_timeout_ms=1_000),
            lambda step: loop.call_soon(step) and None,
            self.defects.append,
        )
        self.whole.links.know({1: BROKER, 2: Address("nowhere", 1)}, None)

    async def ask(self, node: int = 1, done: Callable[[Message | Exception], None] | None = None, **more: Any) -> Any:
        """Send a heartbeat, and wait for its outcome."""
        outcome: asyncio.Future[Message | Exception] = asyncio.get_running_loop().create_future()
        given = {"timeout_ms": 9_000, "purpose": Purpose.DATA} | more
        self.whole.links.ask(Node(node), HeartbeatRequest("g"), done or outcome.set_result, **given)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await outcome


def running(broker: ScriptedBroker, test: Callable[[Running], Awaitable[None]]) -> None:
    async def run() -> None:
        running = Running(broker)
        running.whole.start()
        try:
            await test(running)
        finally:
            await running.whole.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left on the loop"

    asyncio.run(run())


def heartbeats() -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.responders[ApiKey.HEARTBEAT] = lambda request: HeartbeatResponse(error_code=27)
    return broker


def test_requests_are_answered_on_one_connection_for_each_purpose() -> None:
    broker = heartbeats()

    async def test(running: Running) -> None:
        for purpose in (Purpose.DATA, Purpose.CONTROL, Purpose.DATA):
            assert (await running.ask(purpose=purpose)).error_code == 27
        assert len(broker.links) == 2

    running(broker, test)


def test_a_broker_that_cannot_be_reached() -> None:
    async def test(running: Running) -> None:
        assert isinstance(await running.ask(2), ConnectFailed)

    running(heartbeats(), test)


def test_closing_ends_what_waits_and_refuses_more() -> None:
    broker = heartbeats()
    broker.responders[ApiKey.HEARTBEAT] = lambda request: None

    async def test(running: Running) -> None:
        waiting = asyncio.ensure_future(running.ask())
        await asyncio.sleep(0)
        await running.whole.close()
        assert isinstance(await waiting, Closed)
        assert isinstance(await running.ask(), Closed)

    running(broker, test)


def test_a_dropped_broker_loses_its_requests() -> None:
    broker = heartbeats()
    asked = asyncio.Event()

    def answer(request: object) -> None:
        asked.set()

    broker.responders[ApiKey.HEARTBEAT] = answer

    async def test(running: Running) -> None:
        waiting = asyncio.ensure_future(running.ask())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asked.wait()
        running.whole.links.drop(1)
        assert isinstance(await waiting, ConnectionLost)

    running(broker, test)


@pytest.mark.defect
def test_a_defect_is_told() -> None:
    async def test(running: Running) -> None:
        ended = asyncio.Event()

        def raises(outcome: object) -> None:
            ended.set()
            raise ZeroDivisionError("a bug")

        waiting = asyncio.ensure_future(running.ask(done=raises))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()
        await asyncio.sleep(0)
        (defect,) = running.defects
        assert "the broker has ended because of a defect" in str(defect)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    running(heartbeats(), test)
