"""Links between brokers log in with the login module of their listener, and errors about it show no secret.

Method: check the first message of each authenticator; in `test_secure_cluster.py`, brokers connect in these ways.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import SecuritySettings, split_listener_options
from kafkawire.reference_broker.network.link_security import LinkSecurity, link_security
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.transport.wire import Address
from tests.certificates import Certificates

ADDRESS = Address("localhost", 0)

ALL = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,GSSAPI"}

SECURITY = "org.apache.kafka.common.security."


def security(given: dict[str, Any], protocol: str = "SASL_PLAINTEXT") -> LinkSecurity:
    listener = Listener("BROKERS", ADDRESS, ADDRESS, protocol)
    own, of_listeners = split_listener_options(ALL | given)
    return link_security(listener, SecuritySettings(read_options(own), of_listeners, [listener]))


def first_message(mechanism: str, module: str) -> bytes:
    name = f"listener.name.brokers.{mechanism.lower()}.sasl.jaas.config"
    found = security({"sasl.mechanism.inter.broker.protocol": mechanism, name: SECURITY + module})
    assert found.tls is None
    assert found.login is not None
    authenticator = asyncio.run(_made(found))
    assert authenticator.mechanism == mechanism
    message: bytes = authenticator.first_message()
    return message


async def _made(found: LinkSecurity) -> Any:
    assert found.login is not None
    return await found.login("host")


def test_plain() -> None:
    module = 'plain.PlainLoginModule required username="admin" password="hunter2";'
    assert first_message("PLAIN", module) == b"\0admin\0hunter2"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(mechanism: str) -> None:
    module = 'scram.ScramLoginModule required username="admin" password="hunter2"'
    assert first_message(mechanism, f"{module};").startswith(b"n,,n=admin,r=")
    assert first_message(mechanism, f'{module} tokenauth="true";').endswith(b",tokenauth=true")


def test_a_mechanism_that_the_listener_does_not_offer() -> None:
    """As in Kafka, the broker does not start: the others have the same options, and could not log in to it."""
    name = "listener.name.brokers.plain.sasl.jaas.config"
    module = f'{SECURITY}plain.PlainLoginModule required username="admin" password="hunter2";'
    given = {"sasl.mechanism.inter.broker.protocol": "PLAIN", name: module, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with pytest.raises(ConfigurationError, match=r"BROKERS: expected one of sasl\.enabled\.mechanisms, SCRAM-SHA-256"):
        security(given)
    assert security({**given, "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN"}).login is not None


def test_oauthbearer() -> None:
    module = 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"'
    message = first_message("OAUTHBEARER", f'{module} unsecuredLoginLifetimeSeconds="60";')
    token = message.partition(b"Bearer ")[2].partition(b"\x01")[0].decode()
    header, claims = (json.loads(base64.b64decode(part + "==", b"-_")) for part in token.split(".")[:2])
    assert header == {"alg": "none"}
    assert claims["sub"] == "broker"
    assert claims["exp"] - claims["iat"] == pytest.approx(60)


FILE = """
KafkaServer {
    org.apache.kafka.common.security.scram.ScramLoginModule required username="other" password="hunter3";
    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="hunter2";
};
"""


def test_login_module_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(FILE)
    given = {"sasl.mechanism.inter.broker.protocol": "PLAIN", "java.security.auth.login.config": str(file)}
    authenticator = asyncio.run(_made(security(given)))
    assert authenticator.first_message() == b"\0admin\0hunter2"
    for mechanism, path, reason in (
        ("OAUTHBEARER", file, "no OAuthBearerLoginModule"),
        ("PLAIN", "/x", "No such file"),
    ):
        given = {"sasl.mechanism.inter.broker.protocol": mechanism, "java.security.auth.login.config": str(path)}
        with pytest.raises(ConfigurationError, match=f"listener BROKERS: .*{reason}") as caught:
            security(given)
        assert caught.value.option == "java.security.auth.login.config"


def test_certificates_are_changed(certificates: Certificates) -> None:
    listener = Listener("BROKERS", ADDRESS, ADDRESS, "SSL")
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.broker)}
    settings = SecuritySettings(read_options(given), {}, [listener])
    tls = link_security(listener, settings).tls
    assert tls is not None
    first = tls()
    assert tls() is first
    name = "listener.name.brokers.ssl.keystore.location"
    with pytest.raises(ConfigurationError, match="No such file"):
        tls.change(settings.with_values({name: "/nowhere"}))
    assert tls() is first
    tls.change(settings.with_values({name: str(certificates.elsewhere)}))
    assert tls() is not first


def test_without_a_login(certificates: Certificates) -> None:
    assert security({}, "PLAINTEXT") == LinkSecurity(None, None)
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.broker)}
    found = security(given, "SSL")
    assert found.login is None
    assert found.tls is not None
    assert found.tls().check_hostname


@pytest.mark.parametrize(
    ("mechanism", "module", "reason"),
    [
        ("PLAIN", "plain.PlainLoginModule required username=a;", "the option password is needed"),
        ("PLAIN", 'plain.PlainLoginModule required password="hunter2', "the login between brokers cannot be used"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule required;", "the option username is needed"),
        ("OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule required;", "unsecuredLoginStringClaim_sub is needed"),
        ("GSSAPI", "x required;", "the option serviceName is needed"),
    ],
)
def test_unusable(mechanism: str, module: str, reason: str) -> None:
    name = f"listener.name.brokers.{mechanism.lower()}.sasl.jaas.config"
    with pytest.raises(ConfigurationError, match=f"listener BROKERS: .*{reason}") as caught:
        security({"sasl.mechanism.inter.broker.protocol": mechanism, name: SECURITY + module})
    assert caught.value.option == name
    assert "hunter2" not in str(caught.value)
