"""Brokers of a cluster connect to each other with TLS and a login, and clients use listeners of their own.

Method: run brokers in one process on real sockets, with an embedded registry, and kafkawire's clients. A stand-in for a
mechanism runs under the name PLAIN.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire import Admin, ConfigResourceType, Consumer, NewTopic, Producer
from kafkawire.reference_broker.server import Broker
from kafkawire.sdk.errors import ConfigurationError
from tests.certificates import Certificates
from tests.reference_broker.broker_cluster import PATIENCE_SECONDS, BrokerCluster, until
from tests.reference_broker.security.played_mechanism import PASSWORDS, offered_as_plain

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"

LOGIN = f'{MODULE} username="admin" password="admin-secret";'

Options = dict[str, Any]


@pytest.fixture(autouse=True)
def silent_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for password in (*PASSWORDS.values(), "wrong-secret"):
        assert password not in caplog.text


@pytest.fixture(autouse=True)
def mechanism() -> Iterator[None]:
    with offered_as_plain():
        yield


def settings(certificates: Certificates, protocol: str, **more: object) -> Options:
    """Return the options of brokers that connect to each other with a protocol."""
    return {
        "listeners": "CLIENTS://localhost:0,BROKERS://localhost:0",
        "listener.security.protocol.map": f"CLIENTS:PLAINTEXT,BROKERS:{protocol}",
        "inter.broker.listener.name": "BROKERS",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": LOGIN,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/",
        **more,
    }


@pytest.mark.parametrize(
    ("protocol", "principal"),
    [("SSL", "User:broker"), ("SASL_PLAINTEXT", "User:admin"), ("SASL_SSL", "User:admin")],
)
def test_records_are_replicated(certificates: Certificates, protocol: str, principal: str) -> None:
    async def test() -> None:
        async with BrokerCluster(3, **settings(certificates, protocol)) as cluster:
            async with Admin(cluster.bootstrap) as admin:
                await admin.create_topics([NewTopic("t", 3, 3)])
            async with Producer(cluster.bootstrap, acks="all") as producer:
                for number in range(100):
                    producer.send("t", b"%d" % number)
                await producer.flush()
            async with Consumer(cluster.bootstrap, "t", auto_offset_reset="earliest") as consumer:
                received = set()
                async for record in consumer:
                    received.add(int(record.value or b""))
                    if len(received) == 100:
                        break
            for broker in cluster.brokers.values():
                names = [wire.session.peer.listener.name for wire in broker._wires]
                principals = {
                    str(wire.session.peer.principal)
                    for wire in broker._wires
                    if wire.session.peer.listener.name == "BROKERS"
                }
                assert "BROKERS" in names
                assert principals == {principal}
            (content,) = {node.data for node in cluster.registry.tree.nodes() if node.path == "/brokers/ids/1"}
            assert content is not None
            assert json.loads(content)["listener_security_protocol_map"] == {
                "CLIENTS": "PLAINTEXT", "BROKERS": protocol,
            }  # fmt: skip

    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def test_links_use_altered_certificates(certificates: Certificates) -> None:
    more = {
        "ssl.allow.dn.changes": "true",
        "ssl.allow.san.changes": "true",
        "ssl.endpoint.identification.algorithm": "",
    }

    async def test() -> None:
        async with BrokerCluster(2, **settings(certificates, "SSL", **more)) as cluster:
            async with Admin(cluster.bootstrap) as admin:
                altered = {"listener.name.brokers.ssl.keystore.location": str(certificates.client)}
                await admin.incremental_alter_configs(ConfigResourceType.BROKER, "1", altered)
            await cluster.stop(2)
            await cluster.start(2)

            def is_known() -> bool:
                wires = cluster.brokers[2]._wires
                return "User:client" in {str(wire.session.peer.principal) for wire in wires}

            await until(is_known, "broker 1 connects with its new certificate")

    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def test_links_that_are_refused_recover(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong password may be corrected while brokers run, so they keep trying."""

    async def test() -> None:
        async with BrokerCluster(2, **settings(certificates, "SASL_SSL")) as cluster:
            await cluster.stop(2)
            monkeypatch.setitem(PASSWORDS, "admin", "changed-secret")
            starting = asyncio.ensure_future(cluster.start(2))
            await until(lambda: "admin is refused" in caplog.text, "the login is refused")
            assert not starting.done()
            monkeypatch.undo()
            await starting

    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


@pytest.mark.parametrize(
    ("more", "option", "reason"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "NONE"}, "sasl.mechanism.inter.broker.protocol",
         "listener BROKERS: expected one of PLAIN, SCRAM-SHA-256"),
        ({"listener.name.brokers.plain.sasl.jaas.config": f'{MODULE} username="admin";'},
         "listener.name.brokers.plain.sasl.jaas.config", "the option password is needed"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
         "listener.name.brokers.scram-sha-512.sasl.jaas.config", "needed for connections between brokers"),
    ],
)  # fmt: skip
def test_unusable_logins_stop_the_start(certificates: Certificates, more: Options, option: str, reason: str) -> None:
    options = settings(certificates, "SASL_SSL", **more, zookeeper_connect="localhost:1")
    with pytest.raises(ConfigurationError, match=reason) as caught:
        Broker(None, **options)
    assert caught.value.option == option
