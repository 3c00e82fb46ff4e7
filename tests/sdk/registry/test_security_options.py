"""The options for TLS and for the login to ZooKeeper are accepted or refused correctly, and identify a program.

Method: read options as text, as in a properties file, with files from the fixture `certificates`.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.security_options import ZooKeeperSecurityOptions
from kafkawire.sdk.registry.zookeeper_security import OPEN_CONNECTION
from tests.certificates import Certificates

NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
LOGIN = "Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=a password=b; };"


def read(**given: str) -> ZooKeeperSecurityOptions:
    """Read options given under Kafka's names, without the prefix `zookeeper.` and with two underscores for a period."""
    names = {name.replace("__", "."): value for name, value in given.items()}
    prefixed = {name if name.startswith("java.") else f"zookeeper.{name}": value for name, value in names.items()}
    return ZooKeeperSecurityOptions.read(prefixed.items())


def test_without_options_a_connection_is_open() -> None:
    assert read().zookeeper_security() == OPEN_CONNECTION
    assert read(ssl__client__enable="false").zookeeper_security() == OPEN_CONNECTION


def test_tls(certificates: Certificates) -> None:
    trust = {"ssl__client__enable": "true", "ssl__truststore__location": str(certificates.broker)}
    only_trust = read(clientCnxnSocket=NETTY, **trust).zookeeper_security()
    assert only_trust.tls is not None
    assert (only_trust.tls.check_hostname, only_trust.tls.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert only_trust.tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert not only_trust.has_identity
    both = read(
        ssl__keystore__location=str(certificates.client),
        ssl__endpoint__identification__algorithm="",
        ssl__protocol="TLSv1.3",
        **trust,
    ).zookeeper_security()
    assert both.has_identity
    assert both.tls is not None
    assert not both.tls.check_hostname
    assert both.tls.minimum_version is both.tls.maximum_version is ssl.TLSVersion.TLSv1_3
    some = read(ssl__protocol="TLSv1.3", ssl__enabled__protocols="TLSv1.2, TLSv1.3", **trust).zookeeper_security()
    assert some.tls is not None
    assert some.tls.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_login(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(LOGIN)
    found = read(java__security__auth__login__config=str(jaas)).zookeeper_security()
    assert found.has_identity
    assert found.sasl is not None
    assert found.sasl.user == "a"
    assert found.tls is None
    other = read(java__security__auth__login__config=str(jaas), sasl__clientconfig="Other", sasl__client="false")
    assert other.zookeeper_security() == OPEN_CONNECTION
    with pytest.raises(ConfigurationError, match=r"^zookeeper_sasl_client=False: .*jaas.conf has a section Client"):
        read(java__security__auth__login__config=str(jaas), sasl__client="false").zookeeper_security()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"ssl__truststore__location": "/x"}, "zookeeper_ssl_truststore_location=.*: has no effect without"),
        (
            {"ssl__client__enable": "true", "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"},
            "zookeeper_client_cnxn_socket=.*: it does not support TLS",
        ),
        ({"clientCnxnSocket": "mine"}, "zookeeper.clientCnxnSocket='mine': expected one of"),
        ({"ssl__truststore__type": "BCFKS"}, "zookeeper.ssl.truststore.type='BCFKS': expected one of PEM, PKCS12, JKS"),
        ({"ssl__protocol": "TLSv1.1"}, "expected one of TLSv1.2, TLSv1.3"),
        ({"ssl__enabled__protocols": "TLSv1.2,TLSv1.1"}, "expected TLSv1.2 or TLSv1.3, or both"),
        ({"ssl__endpoint__identification__algorithm": "none"}, "expected https, or an empty value"),
    ],
)
def test_what_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read(**given)


def test_passwords_are_not_shown() -> None:
    options = read(ssl__client__enable="true", ssl__keystore__password="hidden-word")
    assert "hidden-word" not in repr(options)
