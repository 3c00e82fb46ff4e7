"""The reference broker answers logins as Apache Kafka does, and Kafka's tools and librdkafka can connect to it.

Method: send one table of conversations as bytes to a secured Kafka and to this broker, where a stand-in for a mechanism
runs under the name PLAIN; compare the outcomes byte by byte. Then other projects' clients use TLS and SASL here.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire.reference_broker.network import doors
from kafkawire.reference_broker.security.sasl.mechanisms import Mechanism
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.certificates import Certificates
from tests.kafka.apache import run_tool
from tests.kafka.secure import PASSWORDS, SESSION_MS, SecureKafka
from tests.reference_broker.security.played_mechanism import Played

pytestmark = pytest.mark.timeout(300)

TIMEOUT_SECONDS = 20

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class Request(NamedTuple):
    """A request.

    Attributes:
        key: its API, or None for a bare token.
        version: its version.
        body: its body.
        is_compared: whether the whole response is compared, rather than its error code.
    """

    key: int | None
    version: int
    body: bytes
    is_compared: bool = True

    @property
    def frame(self) -> bytes:
        if self.key is None:
            return self.body
        is_flexible = self.key == ApiKey.API_VERSIONS and self.version >= _FLEXIBLE_VERSIONS
        is_flexible |= self.key == ApiKey.SASL_AUTHENTICATE and self.version >= _FLEXIBLE_TOKENS
        header = self.key.to_bytes(2, "big") + self.version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
        return header + (b"\0" if is_flexible else b"") + self.body


#: The first versions whose headers and bodies are flexible.
_FLEXIBLE_VERSIONS = 3
_FLEXIBLE_TOKENS = 2


def versions(version: int = 0, name: bytes = b"test") -> Request:
    body = bytes([len(name) + 1]) + name + b"\x021" + b"\0" if version >= _FLEXIBLE_VERSIONS else b""
    return Request(ApiKey.API_VERSIONS, version, body, is_compared=False)


def shake(mechanism: str = "PLAIN", version: int = 1) -> Request:
    name = mechanism.encode()
    return Request(ApiKey.SASL_HANDSHAKE, version, len(name).to_bytes(2, "big") + name)


def token(text: str = "", version: int = 2) -> Request:
    data = plain(text)
    size = bytes([len(data) + 1]) if version == 2 else len(data).to_bytes(4, "big")
    return Request(ApiKey.SASL_AUTHENTICATE, version, size + data + (b"\0" if version == 2 else b""))


def plain(text: str) -> bytes:
    user, _, password = (text or f"admin:{PASSWORDS['admin']}").partition(":")
    return f"\0{user}\0{password}".encode()


def bare(text: str = "") -> Request:
    return Request(None, 0, plain(text))


#: A request for clients that have logged in, whose answer depends on nothing else: to delete no groups.
DELETE_NOTHING = Request(ApiKey.DELETE_GROUPS, 1, bytes(4))
METADATA = Request(ApiKey.METADATA, 4, bytes(4) + b"\0", is_compared=False)

CONVERSATIONS = {
    "a login": [versions(), shake(), token(), DELETE_NOTHING],
    "without versions": [shake(), token(), DELETE_NOTHING],
    "with flexible versions": [versions(3), shake(), token(), DELETE_NOTHING],
    "version 0 of tokens": [versions(4), shake(), token(version=0), DELETE_NOTHING],
    "version 1 of tokens": [shake(), token(version=1), DELETE_NOTHING],
    "bare tokens": [shake(version=0), bare(), DELETE_NOTHING],
    "bare tokens, refused": [shake(version=0), bare("admin:wrong-secret")],
    "wrong password": [versions(), shake(), token("admin:wrong-secret")],
    "wrong password, version 0": [shake(), token("admin:wrong-secret", 0)],
    "unknown user": [shake(), token("nobody:wrong-secret")],
    "unsupported mechanism": [shake("GSSAPI")],
    "mechanism in lower case": [shake("plain")],
    "empty mechanism": [shake("")],
    "handshake in an unknown version": [shake(version=9)],
    "tokens in an unknown version": [shake(), Request(ApiKey.SASL_AUTHENTICATE, 9, b"\x01\0")],
    "a request first": [METADATA],
    "a request after versions": [versions(), DELETE_NOTHING],
    "a token first": [token()],
    "versions twice": [versions(), versions()],
    "versions in an unknown version, then again": [versions(99), versions(99), versions(), shake(), token()],
    "versions with a refused name, then again": [versions(3, b"-"), versions(3), shake(), token()],
    "versions during the login": [shake(), versions()],
    "a request during the login": [shake(), DELETE_NOTHING],
    "handshake twice": [shake(), shake()],
    "nonsense": [Request(None, 0, b"GET / HTTP/1.1\r\n")],
    "nothing": [Request(None, 0, b"")],
    "an unknown API": [Request(999, 0, b"")],
    "an oversized request": [Request(None, 0, bytes(600_000))],
    "a token after the login": [shake(), token(), token()],
    "versions after the login": [shake(), token(), versions()],
    "another login": [shake(), token(), shake(), token(), DELETE_NOTHING],
    "another login, and one more at once": [shake(), token(), shake(), token(), shake()],
    "another login, refused": [shake(), token(), shake(), token("admin:wrong-secret")],
    "another login of someone else": [shake(), token(), shake(), token(f"alice:{PASSWORDS['alice']}")],
    "another login with another mechanism": [shake(), token(), shake("SCRAM-SHA-256"), token()],
    "another login with no mechanism of ours": [shake(), token(), shake("GSSAPI")],
    "a request during another login": [shake(), token(), shake(), DELETE_NOTHING],
    "another login with bare tokens": [shake(), token(), shake(version=0), bare(), DELETE_NOTHING],
}


@pytest.fixture(scope="module")
def ours(certificates: Certificates) -> Iterator[BackgroundBroker]:
    options: dict[str, Any] = {
        "listeners": "SASL_PLAINTEXT://localhost:0,SSL://localhost:0,SASL_SSL://localhost:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": SESSION_MS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doors, "new_exchange", lambda mechanism, *others, listener: Mechanism(mechanism, Played))
        broker = BackgroundBroker(None, **options)
    with broker:
        yield broker


def outcome(port: int, requests: list[Request]) -> list[object]:
    """Return the response to each request, or "closed"."""
    found: list[object] = []
    with socket.create_connection(("localhost", port), TIMEOUT_SECONDS) as connection:
        for request in requests:
            try:
                connection.sendall(len(request.frame).to_bytes(4, "big") + request.frame)
                size = int.from_bytes(_received(connection, 4), "big")
                response = _received(connection, size)
            except (ConnectionError, EOFError):
                found.append("closed")
                break
            found.append(response if request.is_compared else response[4:6])
        else:
            if requests[-1].key == ApiKey.SASL_AUTHENTICATE or len(found) < len(requests):
                found.append(_is_open(connection))
    return found


def _is_open(connection: socket.socket) -> str:
    """Return whether another request is answered, whatever the answer is."""
    try:
        connection.sendall(len(DELETE_NOTHING.frame).to_bytes(4, "big") + DELETE_NOTHING.frame)
        _received(connection, 4)
    except (ConnectionError, EOFError):
        return "closed"
    return "open"


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_logins_are_answered_alike(secure_kafka: SecureKafka, ours: BackgroundBroker, name: str) -> None:
    theirs = int(secure_kafka.addresses["SASL_PLAINTEXT"].rpartition(":")[2])
    expected = outcome(theirs, CONVERSATIONS[name])
    assert outcome(ours.addresses["SASL_PLAINTEXT"].port, CONVERSATIONS[name]) == expected


def settings_of(certificates: Certificates, protocol: str) -> dict[str, str]:
    """Return the settings of a Java client."""
    settings = {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }
    if protocol == "SSL":
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client)}
    if protocol.startswith("SASL"):
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="alice" password="{PASSWORDS["alice"]}";'
        settings |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    return settings


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tools_of_kafka(ours: BackgroundBroker, certificates: Certificates, tmp_path: Path, protocol: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings_of(certificates, protocol).items()))
    server = ("--bootstrap-server", f"localhost:{ours.addresses[protocol].port}")
    topic = ("--topic", f"tools-{protocol.lower()}")
    config = ("--command-config", str(file))
    created = run_tool("org.apache.kafka.tools.TopicCommand", *server, *config, "--create", *topic)
    assert created.returncode == 0, created.stdout + created.stderr
    produced = run_tool("org.apache.kafka.tools.ConsoleProducer", *server, *config, *topic, stdin="one\ntwo\n")
    assert produced.returncode == 0, produced.stdout + produced.stderr
    limits = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
    consumed = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, *config, *topic, *limits)
    assert consumed.stdout == "one\ntwo\n", consumed.stderr


CONFLUENT = """
import json, sys
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

settings, topic = json.loads(sys.argv[1]), sys.argv[2]
admin = AdminClient(settings)
admin.create_topics([NewTopic(topic, 1)])[topic].result(20)
producer = Producer(settings)
for number in range(1000):
    producer.produce(topic, b"%d" % number)
assert producer.flush(20) == 0
consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
values = set()
while len(values) < 1000:
    message = consumer.poll(20)
    assert message is not None and message.error() is None, message and message.error()
    values.add(message.value())
consumer.close()
"""


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_librdkafka(ours: BackgroundBroker, certificates: Certificates, protocol: str) -> None:
    pytest.importorskip("confluent_kafka")
    settings = {
        "bootstrap.servers": f"localhost:{ours.addresses[protocol].port}",
        "security.protocol": protocol,
    }
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(certificates.authority)
    if protocol == "SSL":
        settings["ssl.certificate.location"] = str(certificates.client_certificate)
        settings["ssl.key.location"] = str(certificates.client_key)
    if protocol.startswith("SASL"):
        settings |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": PASSWORDS["alice"]}
    arguments = [sys.executable, "-c", CONFLUENT, json.dumps(settings), f"rdkafka-{protocol.lower()}"]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
