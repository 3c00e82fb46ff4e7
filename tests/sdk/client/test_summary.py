"""A client's repr gives its kind, names and state; it is short, shows no secrets, and never raises.

Method: print each asyncio and blocking client with a scripted broker, before startup, after startup and at the end;
then print clients with huge options, and a client whose constructor raised an error.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kafkawire
from kafkawire import sync
from kafkawire.errors import ConfigurationError
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.testing import Broker
from tests.sdk.scripted_broker import BROKER, StoringBroker

KINDS: dict[str, dict[str, Any]] = {
    "Producer": {"transactional_id": "mover"},
    "Consumer": {"group_id": "billing", "group_instance_id": "one"},
    "Admin": {},
}
NAMED = {
    "Producer": "client_id='me', transactional_id='mover'",
    "Consumer": "client_id='me', group_id='billing', group_instance_id='one'",
    "Admin": "client_id='me'",
}


def a_broker() -> StoringBroker:
    broker = StoringBroker()
    broker.responders[ApiKey.INIT_PRODUCER_ID] = lambda request: InitProducerIdResponse(producer_id=1, producer_epoch=0)
    return broker


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_is_and_how_far(kind: str) -> None:
    given: dict[str, Any] = {"network": a_broker().network, "client_id": "me", **KINDS[kind]}

    async def run() -> None:
        client = getattr(kafkawire, kind)(str(BROKER), **given)
        assert repr(client) == f"<{kind} of broker:9092, {NAMED[kind]}, new>"
        async with client:
            assert repr(client) == f"<{kind} of broker:9092, {NAMED[kind]}, started>"
        assert repr(client) == f"<{kind} of broker:9092, {NAMED[kind]}, closed>"

    asyncio.run(run())
    given["network"] = a_broker().network
    with getattr(sync, kind)(str(BROKER), **given) as blocking:
        assert repr(blocking) == f"<blocking {kind} of broker:9092, {NAMED[kind]}, started>"
    assert repr(blocking) == f"<blocking {kind} of broker:9092, {NAMED[kind]}, closed>"


@pytest.mark.parametrize("face", [kafkawire, sync], ids=lambda face: face.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_bounded_and_keeps_secrets(face: Any, kind: str) -> None:
    long = {name: "x" * 200 if name == "group_instance_id" else "x" * 30_000 for name in KINDS[kind]}
    servers = [f"{'h' * 50}{number}.{'d' * 60}:9092" for number in range(1_000)]
    client = getattr(face, kind)(
        servers,
        client_id="c" * 30_000,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="hunter2",
        **long,
    )
    text = repr(client)
    assert len(text) < 1_000
    assert " and 997 more, client_id='ccc" in text
    assert "… of 30000 characters" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("face", [kafkawire, sync], ids=lambda face: face.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_was_not_made(face: Any, kind: str) -> None:
    """A debugger or a traceback logger may print such a client."""
    made = getattr(face, kind)
    client = made.__new__(made)
    with pytest.raises(ConfigurationError):
        client.__init__("a:1", lingr_ms=1)
    assert repr(client) == f"<{'blocking ' * (face is sync)}{kind}, not made>"


def test_a_delivery_and_a_broker() -> None:
    broker = Broker(ephemeral=True)
    assert repr(broker) == "<Broker, not running>"
    with broker, sync.Producer(broker.bootstrap, topic_timeout_ms=1_000) as producer:
        assert repr(broker) == f"<Broker at {broker.bootstrap}>"
        delivery = producer.send("t", b"x" * 10**6, partition=0)
        assert "x" * 100 not in repr(delivery)
        delivery.result()
        assert repr(delivery) == "<Delivery to 't', partition 0: stored at offset 0>"
        failing = producer.send("t", b"x", partition=7)
        with pytest.raises(kafkawire.KafkaWireError):
            failing.result()
        assert repr(failing).startswith("<Delivery to 't': failed with LocalProtocolError: ")
