"""Clients connect to listeners with TLS and SASL, and clients without the right to do so are refused.

Method: run a broker and kafkawire's own clients in one process, over real sockets and real TLS; a stand-in for a
mechanism runs under the name PLAIN. No password may appear in the log.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkawire import Admin, Consumer, NewTopic, Producer
from kafkawire.reference_broker.network.handshakes import HANDSHAKES_MAX
from kafkawire.reference_broker.server import Broker
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import AuthenticationFailed, BrokerError, ConfigurationError, ConnectFailed, KafkaWireError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.tls import PemFiles
from kafkawire.sdk.transport.wire import Address
from tests.certificates import Certificates
from tests.reference_broker.security.played_mechanism import PASSWORDS, Played, offered_as_plain
from tests.sdk.transport.responses import response_to
from tests.sdk.transport.sasl_broker import log_in_again, until

TIMEOUT_SECONDS = 30

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required;"

Options = dict[str, Any]


@pytest.fixture(autouse=True)
def silent_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for password in (*PASSWORDS.values(), "wrong-secret"):
        assert password not in caplog.text


def run(test: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test, TIMEOUT_SECONDS)

    asyncio.run(limited())


def settings(certificates: Certificates, **more: object) -> Options:
    """Return the options of a broker with a listener for each protocol."""
    return {
        "listeners": ",".join(f"{name}://localhost:0" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": LOGIN,
        **more,
    }


@asynccontextmanager
async def running(
    certificates: Certificates, begin: Callable[[], Played] = Played, **more: object
) -> AsyncIterator[Broker]:
    with offered_as_plain(begin):
        broker = Broker(None, **settings(certificates, **more))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def client_options(broker: Broker, certificates: Certificates, protocol: str, user: str = "alice") -> Options:
    options: Options = {
        "bootstrap_servers": f"localhost:{broker.addresses[protocol].port}",
        "security_protocol": protocol,
        "api_timeout_ms": 10_000,
    }
    if protocol.endswith("SSL"):
        options["ssl_truststore_location"] = str(certificates.authority)
    if protocol == "SSL":
        options["ssl_keystore_location"] = str(certificates.client)
    if protocol.startswith("SASL"):
        options |= {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": PASSWORDS[user]}
    return options


async def list_topics(options: Options) -> None:
    async with Admin(**options) as admin:
        await admin.list_topics()


@pytest.mark.parametrize(
    ("protocol", "principal"),
    [("PLAINTEXT", "ANONYMOUS"), ("SSL", "client"), ("SASL_PLAINTEXT", "alice"), ("SASL_SSL", "alice")],
)
def test_records_travel(certificates: Certificates, protocol: str, principal: str) -> None:
    async def test() -> None:
        async with running(certificates) as broker:
            options = client_options(broker, certificates, protocol)
            async with Admin(**options) as admin:
                await admin.create_topics([NewTopic("t", 1)])
            values = [bytes([number]) * size for number, size in enumerate((10, 300_000, 700_000, 10, 90_000))]
            async with Producer(**options) as producer:
                for value in values:
                    producer.send("t", value)
                await producer.flush()
            received = []
            servers = options.pop("bootstrap_servers")
            async with Consumer(servers, "t", auto_offset_reset="earliest", **options) as consumer:
                async for record in consumer:
                    received.append(bytes(record.value or b""))
                    if len(received) == len(values):
                        break
                assert {str(wire.session.peer.principal) for wire in broker._wires} == {f"User:{principal}"}
            assert received == values

    run(test())


@pytest.mark.parametrize(
    ("protocol", "to", "said"),
    [
        ("PLAINTEXT", "SSL", "the client does not use TLS"),
        ("SSL", "PLAINTEXT", "the client uses TLS, but this listener does not"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "unexpected request METADATA before the login"),
        ("SASL_PLAINTEXT", "PLAINTEXT", ""),
        ("SASL_SSL", "SASL_PLAINTEXT", "the client uses TLS, but this listener does not"),
    ],
)
def test_other_protocols(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, protocol: str, to: str, said: str
) -> None:
    async def test() -> None:
        async with running(certificates) as broker:
            options = client_options(broker, certificates, protocol) | {"api_timeout_ms": 500}
            options["bootstrap_servers"] = f"localhost:{broker.addresses[to].port}"
            with pytest.raises(KafkaWireError):
                await list_topics(options)

    run(test())
    assert said in caplog.text


def test_wrong_password(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(certificates) as broker:
            options = client_options(broker, certificates, "SASL_SSL") | {"sasl_password": "wrong-secret"}
            with pytest.raises(AuthenticationFailed, match="Authentication failed: Invalid username or password"):
                await list_topics(options)

    run(test())
    assert "alice is refused" in caplog.text


def test_certificate_that_is_missing(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(certificates) as broker:
            options = client_options(broker, certificates, "SSL")
            del options["ssl_keystore_location"]
            with pytest.raises(ConnectFailed):
                await list_topics(options | {"api_timeout_ms": 1_000})

    run(test())
    assert "peer did not return a certificate" in caplog.text


def test_certificates_are_replaced_while_clients_stay(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.pem"
    file.write_bytes(certificates.broker.read_bytes())
    monkeypatch.setattr("kafkawire.reference_broker.network.tls_settings.CHECK_MS", 0)

    async def test() -> None:
        location: Options = {"ssl.keystore.location": str(file)}
        async with running(certificates, **location) as broker:
            options = client_options(broker, certificates, "SASL_SSL")
            async with Admin(**options) as first:
                await first.list_topics()
                file.write_bytes(certificates.stranger.read_bytes())
                await first.list_topics()
                with pytest.raises(AuthenticationFailed):
                    await list_topics(options)
                options["ssl_truststore_location"] = str(certificates.authority.with_name("other.crt"))
                async with Admin(**options) as third:
                    await third.list_topics()

    run(test())


def test_certificates_are_altered(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    name = "listener.name.sasl_ssl.ssl.keystore.location"

    async def test() -> None:
        async with running(certificates, Played, **{"ssl.allow.dn.changes": "true"}) as broker:
            options = client_options(broker, certificates, "SASL_SSL")
            async with Admin(**options) as admin:
                alter = partial(admin.incremental_alter_configs, ConfigResourceType.BROKER, "1")
                await alter({name: str(certificates.stranger)})
                await admin.list_topics()
                with pytest.raises(AuthenticationFailed):
                    await list_topics(options)
                await list_topics(client_options(broker, certificates, "SSL"))
                with pytest.raises(BrokerError, match="Failed to load PEM SSL keystore /nowhere for"):
                    await alter({name: "/nowhere"})
                with pytest.raises(BrokerError, match="Keystore SubjectAltNames do not match"):
                    await alter({name: str(certificates.elsewhere)})
                with pytest.raises(AuthenticationFailed):
                    await list_topics(options)
                await alter({name: None})
                await list_topics(options)

    run(test())
    assert "changed certificates are refused: listener.name.sasl_ssl.ssl.keystore.location" in caplog.text


def test_certificates_that_cannot_take_the_place_of_others(certificates: Certificates) -> None:
    prefix = "listener.name.ssl.ssl."

    async def test() -> None:
        none = {"ssl.truststore.location": None, "ssl.client.auth": "none"}
        async with (
            running(certificates, **none) as broker,
            Admin(**client_options(broker, certificates, "PLAINTEXT")) as admin,
        ):
            alter = partial(admin.incremental_alter_configs, ConfigResourceType.BROKER, "1")
            changes = {"keystore.location": certificates.stranger, "truststore.location": certificates.authority}
            reasons = (
                "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=broker}, "
                "new={alias=kafka, DN=CN=stranger}",
                "Cannot add SSL truststore to an existing listener for which no truststore was configured.",
            )
            for (name, file), reason in zip(changes.items(), reasons, strict=True):
                for validate_only in (True, False):
                    with pytest.raises(BrokerError) as caught:
                        await alter({prefix + name: str(file)}, validate_only=validate_only)
                    assert caught.value.code == ErrorCode.INVALID_REQUEST
                    assert f"ConfigException: {reason} for configuration" in caught.value.detail
            await alter({prefix + "keystore.location": str(certificates.broker)})

    run(test())


def network_of(certificates: Certificates) -> TcpNetwork:
    return TcpNetwork(tls=PemFiles(str(certificates.authority)))


async def plain(host: str) -> Authenticator:
    return PlainAuthenticator("alice", Secret(PASSWORDS["alice"]))


async def ask(connection: BrokerConnection) -> None:
    await response_to(connection, MetadataRequest([]), MetadataResponse)


def test_login_is_renewed_on_the_same_connection(certificates: Certificates) -> None:
    logins: list[Played] = []

    def begin() -> Played:
        logins.append(Played())
        return logins[-1]

    async def test() -> None:
        limit = {"listener.name.sasl_ssl.plain.connections.max.reauth.ms": 60_000}
        async with running(certificates, begin, **limit) as broker:
            address = Address("localhost", broker.addresses["SASL_SSL"].port)
            settings = ConnectionSettings(login=plain)
            connection = await BrokerConnection.open(network_of(certificates), address, settings)
            log_in_again(connection)
            await until(lambda: len(logins) == 2 and logins[1].identity is not None)
            await ask(connection)
            assert connection.is_open
            connection.close()

    run(test())


def test_expired_credentials_end_the_connection(certificates: Certificates) -> None:
    def begin() -> Played:
        return Played(now_ms() - 1)

    async def test() -> None:
        async with running(certificates, begin) as broker:
            reader, writer = await asyncio.open_connection("localhost", broker.addresses["SASL_PLAINTEXT"].port)
            shake = bytes.fromhex("0011000100000001ffff") + b"\0\x05PLAIN"
            token = b"\0alice\0" + PASSWORDS["alice"].encode()
            authenticate = bytes.fromhex("0024000100000002ffff") + len(token).to_bytes(4, "big") + token
            metadata = bytes.fromhex("0003000000000003ffff") + bytes(4)
            for request in (shake, authenticate):
                writer.write(len(request).to_bytes(4, "big") + request)
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
            # The time at which the login ends is still in time, so the first request may be answered.
            while True:
                writer.write(len(metadata).to_bytes(4, "big") + metadata)
                head = await reader.read(4)
                if not head:
                    break
                await reader.readexactly(int.from_bytes(head, "big"))
            writer.close()

    run(test())


def test_slow_handshakes_disturb_nobody(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that begin TLS and do not continue are dropped; others are answered in the meantime."""
    count = 200

    async def test() -> None:
        async with running(certificates) as broker:
            options = client_options(broker, certificates, "SASL_SSL")
            async with Admin(**options) as admin:
                await admin.list_topics()
                port = broker.addresses["SASL_SSL"].port
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                held = []
                for number in range(count):
                    end = socket.create_connection(("localhost", port))
                    to_send = ssl.MemoryBIO()
                    tls = context.wrap_bio(ssl.MemoryBIO(), to_send, server_hostname="localhost")
                    with pytest.raises(ssl.SSLWantReadError):
                        tls.do_handshake()
                    if number % 2:
                        end.sendall(to_send.read())
                    held.append(end)
                    if not number % 20:
                        await admin.list_topics()
                handshakes = broker._doors._doors["SASL_SSL"].handshakes
                while len(handshakes) < count:
                    await asyncio.sleep(0)
                await admin.list_topics()
                for end in held:
                    end.close()
                while len(handshakes):
                    await asyncio.sleep(0)

    run(test())
    assert count < HANDSHAKES_MAX
    assert "no TLS connection" not in caplog.text


def test_a_broker_that_stops_ends_handshakes(certificates: Certificates) -> None:
    async def test() -> None:
        async with running(certificates) as broker:
            reader, writer = await asyncio.open_connection("localhost", broker.addresses["SSL"].port)
            while not len(broker._doors._doors["SSL"].handshakes):
                await asyncio.sleep(0)
        assert await reader.read() == b""
        writer.close()

    run(test())


def test_a_broker_that_starts_again(certificates: Certificates) -> None:
    async def test() -> None:
        async with running(certificates) as broker:
            for protocol in ("SSL", "SASL_SSL"):
                await broker.stop()
                await broker.start()
                await list_topics(client_options(broker, certificates, protocol))

    run(test())


def test_limit_of_a_listener(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        limit: Options = {"listener.name.ssl.max.connections": 1}
        async with running(certificates, **limit) as broker:
            port = broker.addresses["SSL"].port
            _, first = await asyncio.open_connection("localhost", port)
            _, second = await asyncio.open_connection("localhost", port)
            while "have to wait" not in caplog.text:
                await asyncio.sleep(0)
            async with Admin(**client_options(broker, certificates, "SASL_SSL")) as admin:
                await admin.list_topics()
            first.close()
            second.close()

    run(test())
    assert "listener.name.ssl.max.connections is 1" in caplog.text


@pytest.mark.parametrize(
    ("more", "option", "reason"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location", "listener SSL: cannot be used"),
        ({"sasl.enabled.mechanisms": "PLAIN,SECRET"}, "sasl.enabled.mechanisms",
         "listener SASL_PLAINTEXT, mechanism SECRET: expected some of PLAIN"),
        ({"listener.name.sasl_ssl.sasl.enabled.mechanisms": ""}, "listener.name.sasl_ssl.sasl.enabled.mechanisms",
         "listener SASL_SSL needs one"),
        ({"listener.name.sasl_ssl.scram.sasl.jaas.config": LOGIN, "listener.name.ssl.ssl.principal.mapping.rules": "x"},
         "listener.name.ssl.ssl.principal.mapping.rules", "listener SSL: invalid rule"),
    ],
)  # fmt: skip
def test_unusable_listeners_stop_the_start(certificates: Certificates, more: Options, option: str, reason: str) -> None:
    with offered_as_plain(), pytest.raises(ConfigurationError, match=reason) as caught:
        Broker(None, **settings(certificates, **more))
    assert caught.value.option == option


def test_settings_of_mechanisms(certificates: Certificates) -> None:
    with offered_as_plain() as given:
        more = {"sasl.oauthbearer.expected.issuer": "issuer"}
        Broker(None, **settings(certificates, **more))
    assert given == [{"sasl.jaas.config": LOGIN, **more}] * 2
