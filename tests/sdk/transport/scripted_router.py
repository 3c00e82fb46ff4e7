"""A driver whose router returns the actions that a test gives it, and records what the driver reports."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.transport.driver import Driver
from tests.sdk.scripted_broker import ScriptedBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS, SETTINGS, Machine

__all__ = ["scripted_driver"]


class ScriptedRouter:
    """A router that returns the actions given by the test, and records what the driver reports."""

    def __init__(self) -> None:
        self.actions: list[Any] = []
        self.due: int | None = None
        self.reported: list[tuple[str, Any]] = []
        self.event = asyncio.Event()

    def poll(self, now_ms: int) -> list[Any]:
        actions, self.actions = self.actions, []
        return actions

    def due_ms(self, now_ms: int) -> int | None:
        return self.due

    def opened(self, link: Link, connection: object, now_ms: int) -> None:
        self.report("opened", link)

    def closed(self, link: Link, error: KafkaWireError, now_ms: int) -> None:
        self.report("closed", error)

    def answered(self, call: Call, response: Message | None, now_ms: int) -> None:
        self.report("answered", response)

    def failed(self, call: Call, error: KafkaWireError, now_ms: int) -> None:
        self.report("failed", error)

    def close(self, error: KafkaWireError, now_ms: int) -> None:
        self.report("close", error)

    def report(self, what: str, detail: object) -> None:
        self.reported.append((what, detail))
        self.event.set()

    async def next(self) -> str:
        """Wait for the next report, and return its name."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.event.wait()
        self.event.clear()
        return self.reported[-1][0]


def scripted_driver(broker: ScriptedBroker, *machines: Machine) -> tuple[ScriptedRouter, Driver[Link, Call]]:
    router = ScriptedRouter()
    return router, Driver(cast("Any", router), machines, broker.network, SETTINGS)
