"""A broker names the options that have no effect because no listener uses them, or there is no authorizer.

Method: construct brokers without starting them; each reason has a case with it and a case without.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kafkawire.reference_broker.server import Broker
from tests.certificates import Certificates

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

SCRAM = {
    "listener.name.a.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.a.scram-sha-512.sasl.jaas.config": JAAS,
}


def idle(certificates: Certificates, protocol: str, **given: Any) -> dict[str, str]:
    """Return the idle options of a broker with a listener A, and why they are idle."""
    options: dict[str, Any] = {"listeners": "A://localhost:0", "listener.security.protocol.map": f"A:{protocol}"}
    if protocol.endswith("SSL"):
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.broker)}
    if protocol.startswith("SASL"):
        options |= SCRAM
    return dict(Broker(None, **options | given).idle_options())


TLS = "no listener has a protocol with TLS"
SASL = "no listener has a protocol with SASL"
ACLS = "there is no authorizer; authorizer.class.name configures one"
UNASKED = "no listener asks its clients for certificates"
PLAINTEXT, SSL = ("listener A has the protocol PLAINTEXT", "listener A has the protocol SSL")


@pytest.mark.parametrize(
    ("protocol", "name", "value", "reason"),
    [
        ("PLAINTEXT", "ssl.keystore.location", "/x", TLS),
        ("SASL_PLAINTEXT", "ssl.client.auth", "required", TLS),
        ("SSL", "ssl.client.auth", "required", None),
        ("SASL_SSL", "ssl.client.auth", "required", "needs an option of its own for this, such as listener.name.a.ssl"),
        ("SASL_SSL", "ssl.client.auth", "none", None),
        ("SASL_SSL", "listener.name.a.ssl.client.auth", "required", None),
        ("SSL", "ssl.truststore.type", "PEM", UNASKED),
        ("SSL", "ssl.principal.mapping.rules", "DEFAULT", UNASKED),
        ("SSL", "sasl.enabled.mechanisms", "PLAIN", SASL),
        ("PLAINTEXT", "connections.max.reauth.ms", "1000", SASL),
        ("SSL", "sasl.oauthbearer.expected.issuer", "x", SASL),
        ("PLAINTEXT", "java.security.auth.login.config", "/x", SASL),
        ("SASL_SSL", "connections.max.reauth.ms", "1000", None),
        ("PLAINTEXT", "super.users", "User:admin", ACLS),
        ("PLAINTEXT", "super.users", "", None),
        ("PLAINTEXT", "allow.everyone.if.no.acl.found", "true", ACLS),
        ("PLAINTEXT", "allow.everyone.if.no.acl.found", "false", None),
        ("PLAINTEXT", "listener.name.a.ssl.keystore.location", "/x", PLAINTEXT),
        ("SSL", "listener.name.a.sasl.enabled.mechanisms", "PLAIN", SSL),
        ("SSL", "listener.name.a.scram-sha-512.sasl.jaas.config", JAAS, SSL),
        ("SASL_SSL", "listener.name.a.connections.max.reauth.ms", "1000", None),
        (
            "SASL_SSL",
            "listener.name.a.scram-sha512.sasl.jaas.config",
            JAAS,
            "has no such mechanism, only SCRAM-SHA-512",
        ),
        ("PLAINTEXT", "listener.name.a.max.connections", "5", None),
        ("PLAINTEXT", "num.partitions", "5", None),
    ],
)
def test_options(certificates: Certificates, protocol: str, name: str, value: str, reason: str | None) -> None:
    found = idle(certificates, protocol, **{name: value})
    assert [*found] == ([] if reason is None else [name])
    assert reason is None or reason in found[name]


def test_options_that_are_used(certificates: Certificates) -> None:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
    rules = {"ssl.principal.mapping.rules": "DEFAULT", "ssl.client.auth": "required"}
    assert not idle(certificates, "SSL", **trust, **rules)
    acls = {"authorizer.class.name": STANDARD, "super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}
    assert not idle(certificates, "SASL_SSL", **acls)


def test_options_for_other_brokers(certificates: Certificates) -> None:
    """A broker in a cluster verifies the others, and logs in to ZooKeeper."""
    cluster = {"zookeeper.connect": "zk.invalid:2181", "inter.broker.listener.name": "A"}
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
    assert not idle(certificates, "SSL", **cluster, **trust)


def test_a_start_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    async def start() -> None:
        broker = Broker(None, super_users="User:admin")
        await broker.start()
        await broker.stop()

    caplog.set_level(logging.WARNING)
    asyncio.run(start())
    assert caplog.messages == [f"super.users has no effect: {ACLS}"]
