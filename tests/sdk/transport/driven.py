"""A client with a driver, and state machines that record their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafkawire.sdk.client.options import ClientOptions, read_options
from kafkawire.sdk.errors import (
    Closed,
    KafkaWireError,
)
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.call import ANY_BROKER, Call
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.io_thread import IoThread
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.scripted_broker import BROKER, ScriptedBroker

__all__ = ["PATIENCE_SECONDS", "SETTINGS", "Client", "Machine", "driven", "on_loop"]

OPTIONS = read_options(ClientOptions, str(BROKER), {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50})

SETTINGS = ConnectionSettings(connect_timeout_ms=1_000, request_timeout_ms=1_000)

#: The longest time for which any test waits.
PATIENCE_SECONDS = 10


class Machine:
    """A state machine that counts its polls, and may raise or wait."""

    def __init__(self, defect: BaseException | None = None, due_ms: int | None = None) -> None:
        self.polls: list[int] = []
        self.defect = defect
        self.due: int | None = due_ms
        self.failures: list[KafkaWireError] = []
        self.polled = asyncio.Event()

    async def turns(self, count: int) -> None:
        """Wait for this many polls from now."""
        for _ in range(count):
            self.polled.clear()
            await self.polled.wait()

    def poll(self, now_ms: int) -> None:
        self.polls.append(now_ms)
        self.polled.set()
        if self.defect is not None:
            raise self.defect

    def due_ms(self, now_ms: int) -> int | None:
        return self.due

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.failures.append(error)


class Client:
    """A router and its driver."""

    def __init__(self, broker: ScriptedBroker, *machines: Machine) -> None:
        self.router = Router(OPTIONS, Backoff(10, 50, lambda: 0.5))
        self.driver: Driver[Link, Call] = Driver(self.router, machines, broker.network, SETTINGS)

    def metadata(self, timeout_ms: int = 5_000, retries: bool = True) -> Promise[Message]:
        """Request the metadata of all topics."""

        def step(promise: Promise[Message], now_ms: int) -> None:
            def done(call: Call, now_ms: int) -> None:
                if call.error is not None:
                    promise.fail(call.error)
                elif call.result is not None:
                    promise.keep(call.result)

            request = MetadataRequest(None)
            deadline_ms = now_ms + timeout_ms
            call = Call(ANY_BROKER, lambda _: (request, None), MetadataResponse, deadline_ms, done, retries=retries)
            self.router.submit(call, now_ms)

        return self.driver.ask(step)


@contextmanager
def driven(client: Client) -> Iterator[Client]:
    """Run a client on an I/O thread."""
    thread = IoThread()
    client.driver.start(thread.loop)
    try:
        yield client
    finally:
        client.driver.end(Closed("the test is over")).wait(PATIENCE_SECONDS)
        thread.stop()


def on_loop(broker: ScriptedBroker, test: Callable[[Client], Any], *machines: Machine) -> None:
    """Run a client on its caller's event loop."""

    async def run() -> None:
        client = Client(broker, *machines)
        client.driver.start()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await test(client)
        finally:
            await client.driver.end(Closed("the test is over"))
            assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing may be left on the loop"

    asyncio.run(run())
