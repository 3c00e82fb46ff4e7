"""Clients log in to Apache Kafka in every way that it offers, stay logged in, and report why a login is refused.

Method: use one node with TLS, SASL and an authorizer, and SASL sessions of two seconds; the log must not contain a
password.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from signal import SIGCONT, SIGSTOP
from threading import Event
from typing import Any

import pytest

from kafkawire import (
    AccessControlEntry,
    AclBinding,
    Admin,
    BrokerError,
    Consumer,
    KafkaWireError,
    NewTopic,
    Producer,
    ResourcePattern,
)
from kafkawire.sdk import log_limit
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import AuthenticationFailed, ConnectFailed, ConnectionLost
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address
from tests.certificates import Certificates
from tests.kafka.secure import PASSWORDS, SESSION_MS, SecureKafka, unsecured_token
from tests.sdk.transport.responses import response_to

TIMEOUT_SECONDS = 60

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


def sasl(kafka: SecureKafka, mechanism: str, user: str = "admin", password: str | None = None) -> Options:
    """Return the options that log a user in without TLS."""
    options: Options = {
        "bootstrap_servers": kafka.addresses["SASL_PLAINTEXT"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "api_timeout_ms": 10_000,
    }
    if mechanism == "OAUTHBEARER":
        return options | {"sasl_oauthbearer_token": lambda: unsecured_token(user)}
    return options | {"sasl_username": user, "sasl_password": password or PASSWORDS[user]}


def over_tls(kafka: SecureKafka, certificates: Certificates, options: Options) -> Options:
    """Return the options with TLS added."""
    protocol = {"bootstrap_servers": kafka.addresses["SASL_SSL"], "security_protocol": "SASL_SSL"}
    return options | protocol | {"ssl_truststore_location": str(certificates.authority)}


def mutual_tls(kafka: SecureKafka, certificates: Certificates) -> Options:
    return {
        "bootstrap_servers": kafka.addresses["SSL"],
        "security_protocol": "SSL",
        "ssl_truststore_certificates": certificates.authority.read_text(),
        "ssl_keystore_location": str(certificates.client),
        "api_timeout_ms": 10_000,
    }


async def there_and_back(options: Options, name: str) -> None:
    """Create a topic, produce to it, and read it in a group."""
    async with Admin(**options) as admin:
        await admin.create_topics(NewTopic(name, 1, 1))
    async with Producer(**options) as producer:
        deliveries = [producer.send(name, b"%d" % number) for number in range(10)]
        for delivery in deliveries:
            await delivery
    async with Consumer(**options, group_id=f"group-{name}", auto_offset_reset="earliest") as consumer:
        await consumer.subscribe(name)
        values = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 10:
                break
    assert values == [b"%d" % number for number in range(10)]


@pytest.mark.smoke
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_every_mechanism(secure_kafka: SecureKafka, certificates: Certificates, mechanism: str, tls: bool) -> None:
    options = sasl(secure_kafka, mechanism)
    if tls:
        options = over_tls(secure_kafka, certificates, options)
    run(there_and_back(options, f"mechanism-{mechanism}-{tls}"))


async def allow(kafka: SecureKafka, user: str, topic: str) -> None:
    """Allow a user all operations on a topic and on every group."""
    entry = AccessControlEntry(f"User:{user}", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    resources = ResourcePattern(ResourceType.TOPIC, topic), ResourcePattern(ResourceType.GROUP, "*")
    async with Admin(kafka.bootstrap) as admin:
        created = await admin.create_acls(AclBinding(resource, entry) for resource in resources)
    assert not created.errors


@pytest.mark.smoke
def test_a_client_certificate_names_its_owner(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    """The principal is `client`, which has only the permissions granted to it."""
    options = mutual_tls(secure_kafka, certificates)

    async def test() -> None:
        async with Admin(**options) as admin:
            with pytest.raises(BrokerError) as caught:
                await admin.create_topics(NewTopic("of-client", 1, 1))
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await allow(secure_kafka, "client", "of-client")
        await there_and_back(options, "of-client")

    run(test())


def test_a_context_of_the_users_own(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    context.load_cert_chain(certificates.client)
    options = {**mutual_tls(secure_kafka, certificates), "ssl_context": context}
    del options["ssl_truststore_certificates"], options["ssl_keystore_location"]

    async def test() -> None:
        async with Admin(**options) as admin:
            assert isinstance(await admin.list_topics(), list | tuple | dict)

    run(test())


def test_a_token_from_a_service(secure_kafka: SecureKafka) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            body = f'{{"access_token": "{unsecured_token("admin")}", "expires_in": 60}}'
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
            writer.close()
            await writer.wait_closed()

    async def test() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            options = sasl(secure_kafka, "OAUTHBEARER") | {
                "sasl_oauthbearer_token_endpoint_url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token",
                "sasl_oauthbearer_client_credentials_client_id": "me",
                "sasl_oauthbearer_client_credentials_client_secret": "wrong-secret",
            }
            del options["sasl_oauthbearer_token"]
            await there_and_back(options, "token-from-a-service")

    run(test())


# ------------------------------------------------------------------------------------------------------ refused logins


def refusal(options: Options) -> KafkaWireError:
    """Return the reason why a client cannot start; it must fail quickly."""

    async def start() -> None:
        async with Admin(**options) as admin:
            await admin.list_topics()

    with pytest.raises(KafkaWireError) as caught:
        asyncio.run(asyncio.wait_for(start(), 5))
    for password in (*PASSWORDS.values(), "wrong-secret"):
        assert password not in str(caught.value)
        assert password not in repr(caught.value)
    return caught.value


@pytest.mark.parametrize("user", ["admin", "nobody"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(secure_kafka: SecureKafka, mechanism: str, user: str) -> None:
    error = refusal(sasl(secure_kafka, mechanism, user, "wrong-secret"))
    assert isinstance(error, AuthenticationFailed)
    assert (error.phase, error.retriable) == ("sasl", False)
    assert "SASL_AUTHENTICATION_FAILED" in str(error)
    assert mechanism in str(error)


def test_an_expired_token(secure_kafka: SecureKafka) -> None:
    options = sasl(secure_kafka, "OAUTHBEARER")
    error = refusal(options | {"sasl_oauthbearer_token": lambda: unsecured_token("admin", -30)})
    assert isinstance(error, AuthenticationFailed)
    assert "invalid_token" in str(error)


def test_an_unknown_mechanism(secure_kafka: SecureKafka) -> None:
    class Unknown(PlainAuthenticator):
        mechanism = "UNKNOWN"

    async def login(host: str) -> Authenticator:
        return Unknown("admin", Secret("wrong-secret"))

    async def test() -> None:
        address = Address.parse("bootstrap", secure_kafka.addresses["SASL_PLAINTEXT"])
        offered = "OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
        with pytest.raises(
            AuthenticationFailed, match=f"the mechanism UNKNOWN was refused; the broker offers {offered}"
        ):
            await BrokerConnection.open(TcpNetwork(), address, ConnectionSettings(login=login))

    run(test())


def test_an_authority_that_is_not_trusted(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    for trusted in ({}, {"ssl_truststore_location": str(certificates.stranger)}):
        error = refusal({"bootstrap_servers": secure_kafka.addresses["SSL"], "security_protocol": "SSL", **trusted})
        assert isinstance(error, AuthenticationFailed)
        assert error.phase == "tls"
        assert "the broker's certificate is not trusted: " in str(error)


def test_another_host(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    """The certificate is valid for `localhost`, but not for 127.0.0.1."""
    options = mutual_tls(secure_kafka, certificates)
    options["bootstrap_servers"] = options["bootstrap_servers"].replace("localhost", "127.0.0.1")
    error = refusal(options)
    assert isinstance(error, AuthenticationFailed)
    assert error.phase == "tls"
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in str(error)

    async def test() -> None:
        async with Admin(**options, ssl_endpoint_identification_algorithm="") as admin:
            await admin.list_topics()

    run(test())


def test_no_client_certificate(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    options = mutual_tls(secure_kafka, certificates)
    del options["ssl_keystore_location"]
    error = refusal(options)
    assert isinstance(error, AuthenticationFailed)
    assert error.phase == "tls"
    assert "see ssl_keystore_location" in str(error)


@pytest.mark.parametrize(
    ("listener", "protocol", "phase", "text"),
    [
        ("SSL", "PLAINTEXT", "versions", 'this port uses TLS: set security_protocol to "SSL" or "SASL_SSL"'),
        ("SASL_SSL", "SASL_PLAINTEXT", "versions", "this port uses TLS"),
        ("PLAINTEXT", "SSL", "tls", "the handshake failed: .*; does this port use TLS?"),
        ("SASL_PLAINTEXT", "SASL_SSL", "tls", "does this port use TLS?"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "sasl", "ILLEGAL_SASL_STATE: this broker listener does not use SASL"),
    ],
)
def test_the_wrong_port(
    secure_kafka: SecureKafka, certificates: Certificates, listener: str, protocol: str, phase: str, text: str
) -> None:
    addresses = secure_kafka.addresses | {"PLAINTEXT": secure_kafka.bootstrap}
    address = Address.parse("bootstrap", addresses[listener])
    network = TcpNetwork(tls=certificates_only(certificates) if protocol.endswith("SSL") else None)

    async def login(host: str) -> Authenticator:
        return PlainAuthenticator("admin", Secret("wrong-secret"))

    async def test() -> None:
        settings = ConnectionSettings(login=login if protocol.startswith("SASL") else None)
        with pytest.raises(ConnectFailed, match=f"{phase}: .*{text}") as caught:
            await BrokerConnection.open(network, address, settings)
        assert caught.value.phase == phase

    run(test())


def certificates_only(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.authority))


def test_a_node_that_hangs(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    """The time limit applies to the handshake as well as to the first request."""

    async def test() -> None:
        for listener, phase in (("SASL_PLAINTEXT", "versions"), ("SSL", "tls")):
            network = TcpNetwork(tls=certificates_only(certificates) if listener == "SSL" else None)
            address = Address.parse("bootstrap", secure_kafka.addresses[listener])
            began_ms = monotonic_ms()
            with pytest.raises(ConnectFailed, match=f"{phase}: it accepted .* within connect_timeout_ms=300"):
                await BrokerConnection.open(network, address, ConnectionSettings(connect_timeout_ms=300))
            assert 0.3 <= (monotonic_ms() - began_ms) / 1000 < 10

    secure_kafka.signal(SIGSTOP)
    try:
        run(test())
    finally:
        secure_kafka.signal(SIGCONT)


# --------------------------------------------------------------------------------------------------- expiring sessions


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """The addresses of the connections that a test opens."""
    found: list[Address] = []
    original = BrokerConnection.open.__func__  # type: ignore[attr-defined]  # `open` is a class method

    async def note(cls: type[BrokerConnection], network: Any, address: Address, settings: Any) -> BrokerConnection:
        found.append(address)
        connection: BrokerConnection = await original(cls, network, address, settings)
        return connection

    monkeypatch.setattr(BrokerConnection, "open", classmethod(note))
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_sessions_end_under_load(
    secure_kafka: SecureKafka,
    mechanism: str,
    opened: list[Address],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For four session lengths, the initial connections carry all records; none is lost or repeated."""
    monkeypatch.setattr(log_limit, "INTERVAL_MS", 0)  # logins are counted by their log lines
    options = sasl(secure_kafka, mechanism)
    topic = f"load-{mechanism}"
    sent = 0
    found: list[bytes | None] = []

    async def produce(end_ms: int) -> None:
        nonlocal sent
        async with Producer(**options, linger_ms=1) as producer:
            while monotonic_ms() < end_ms:
                deliveries = [producer.send(topic, b"%d" % number) for number in range(sent, sent + 100)]
                for delivery in deliveries:
                    await delivery
                sent += len(deliveries)

    async def test() -> None:
        async with Admin(**options) as admin:
            await admin.create_topics(NewTopic(topic, 1, 1))
        group = {"group_id": f"group-{topic}", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}
        async with Consumer(**options, **group) as consumer:
            await consumer.subscribe(topic)
            producing = asyncio.ensure_future(produce(monotonic_ms() + 4 * SESSION_MS))
            while not (producing.done() and len(found) >= sent):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found.extend(record.value for record in records)
            await producing

    run(test())
    assert found == [b"%d" % number for number in range(sent)]
    assert sent > 1000
    # From the start, the admin has 1 connection, the producer 1, and the consumer 2 each for bootstrap and node.
    again = [record for record in caplog.records if record.getMessage().startswith("authenticated again")]
    assert len(again) >= 3 * 2
    assert len(opened) <= 6
    assert not [record for record in caplog.records if "lost" in record.getMessage()]


def test_a_session_that_ended_while_the_program_was_busy(secure_kafka: SecureKafka, opened: list[Address]) -> None:
    """Later requests wait for a new login, and the connection survives."""

    async def login(host: str) -> Authenticator:
        return PlainAuthenticator("admin", Secret(PASSWORDS["admin"]))

    async def test() -> None:
        address = Address.parse("bootstrap", secure_kafka.addresses["SASL_PLAINTEXT"])
        connection = await BrokerConnection.open(TcpNetwork(), address, ConnectionSettings(login=login))
        Event().wait((SESSION_MS + 500) / 1000)
        for _ in range(3):
            response = await response_to(connection, MetadataRequest([]), MetadataResponse)
            assert len(response.brokers) == 1
        connection.close()

    run(test())
    assert len(opened) == 1


def test_a_password_that_is_wrong_from_now_on(secure_kafka: SecureKafka) -> None:
    """The connection and the requests on it fail with the reason."""
    password = PASSWORDS["admin"]

    async def login(host: str) -> Authenticator:
        return PlainAuthenticator("admin", Secret(password))

    async def test() -> None:
        nonlocal password
        address = Address.parse("bootstrap", secure_kafka.addresses["SASL_PLAINTEXT"])
        connection = await BrokerConnection.open(TcpNetwork(), address, ConnectionSettings(login=login))
        password = "wrong-secret"

        async def ask_until_it_fails() -> None:
            while True:
                await response_to(connection, MetadataRequest([]), MetadataResponse)

        with pytest.raises(KafkaWireError) as caught:
            await ask_until_it_fails()
        error = caught.value if "could not log in again" in str(caught.value) else caught.value.__cause__
        assert isinstance(error, ConnectionLost)
        assert "Invalid username or password" in str(error)
        with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
            await BrokerConnection.open(TcpNetwork(), address, ConnectionSettings(login=login))

    run(test())


def test_cancelled_at_any_time(secure_kafka: SecureKafka, certificates: Certificates) -> None:
    """Whenever a client is cancelled, it leaves no task and no open socket; warnings about them are errors."""
    options = over_tls(secure_kafka, certificates, sasl(secure_kafka, "SCRAM-SHA-256"))

    async def start() -> None:
        async with Admin(**options) as admin:
            await admin.list_topics()

    async def test() -> None:
        finished = False
        for delay_ms in range(0, 400, 5):
            starting = asyncio.ensure_future(start())
            finished = bool((await asyncio.wait([starting], timeout=delay_ms / 1000))[0])
            if finished:
                break
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert finished
        assert asyncio.all_tasks() - {asyncio.current_task()} <= {task for task in asyncio.all_tasks() if task.done()}

    asyncio.run(test())
