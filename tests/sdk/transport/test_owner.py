"""A driver names its owner in errors and log lines, and tells it about a defect.

Method: run a client's driver and another owner's driver over the scripted broker, with a machine that raises.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.owner import CLIENT, Owner
from tests.sdk.scripted_broker import ScriptedBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS, SETTINGS, Machine
from tests.sdk.transport.scripted_router import ScriptedRouter

BROKER = Owner("broker", logging.getLogger("kafkawire.broker"), logging.getLogger("kafkawire.broker"))


@pytest.mark.parametrize(
    ("owner", "logger"), [(CLIENT, "kafkawire.client"), (BROKER, "kafkawire.broker")], ids=["client", "broker"]
)
def test_a_defect_is_told_once_in_the_words_of_the_owner(
    owner: Owner, logger: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[KafkaWireError] = []

    async def run() -> None:
        machine = Machine(ZeroDivisionError("a bug"))
        router = cast("Any", ScriptedRouter())
        driver: Driver[Any, Any] = Driver(
            router, [machine], ScriptedBroker().network, SETTINGS, owner=owner, on_defect=told.append
        )
        driver.start()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await router.next() == "close"
        assert told == machine.failures
        await driver.end(Closed("the test is over"))

    asyncio.run(run())
    (failure,) = told
    assert str(failure) == f"the {owner.name} has ended because of a defect: ZeroDivisionError('a bug')"
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        (logger, f"the {owner.name} has ended because of a defect")
    ]


def test_a_client_has_the_loggers_of_the_documentation() -> None:
    assert (CLIENT.name, CLIENT.logger.name, CLIENT.security_logger.name) == (
        "client",
        "kafkawire.client",
        "kafkawire.security",
    )
