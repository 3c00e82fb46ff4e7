"""A connection opens only after its login, logs in again while requests continue, and never hangs in the process.

Method: in each state, let the scripted in-memory broker check passwords, limit sessions, stay silent or send garbage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport import gate
from kafkawire.sdk.transport.connection import BrokerConnection
from kafkawire.sdk.transport.timing import sleep_ms
from tests.sdk.transport.responses import send_request
from tests.sdk.transport.sasl_broker import PASSWORD, SaslBroker, ask, log_in_again, plain, until, with_broker

#: The gate's requests, in order.
STEPS = [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
PHASES = ["versions", "sasl", "sasl"]


def test_a_login() -> None:
    async def test(broker: SaslBroker) -> None:
        connection = await broker.open()
        assert await ask(connection) == ["t"]
        assert broker.logins == 1
        connection.close()

    with_broker(test)


def test_a_wrong_password() -> None:
    async def test(broker: SaslBroker) -> None:
        async def login(host: str) -> Authenticator:
            return PlainAuthenticator("alice", Secret("guess-guess"))

        with pytest.raises(AuthenticationFailed, match=r"sasl: .*PLAIN: wrong user or password") as caught:
            await broker.open(login)
        assert caught.value.phase == "sasl"
        assert "guess-guess" not in str(caught.value)

    with_broker(test)


@pytest.mark.usefixtures("time_skips")
@pytest.mark.parametrize("step", range(3))
def test_a_broker_that_stalls(step: int) -> None:
    async def test(broker: SaslBroker) -> None:
        broker.script(STEPS[step], lambda request: None)
        with pytest.raises(ConnectFailed, match=f"{PHASES[step]}: .* within connect_timeout_ms=200") as caught:
            await broker.open(timeout_ms=200)
        assert caught.value.phase == PHASES[step]
        assert caught.value.retriable

    with_broker(test)


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"HTTP/1.1 400 Bad Request", bytes(8)])
@pytest.mark.parametrize("step", range(3))
def test_a_broker_that_sends_garbage(step: int, garbage: bytes) -> None:
    async def test(broker: SaslBroker) -> None:
        def answer(request: Request) -> None:
            broker.links[0].wire.write([frame(garbage)])

        broker.script(STEPS[step], answer)
        with pytest.raises(ConnectFailed, match=f"{PHASES[step]}: "):
            await broker.open()

    with_broker(test)


@pytest.mark.parametrize("step", range(3))
def test_a_broker_that_hangs_up(step: int) -> None:
    async def test(broker: SaslBroker) -> None:
        broker.script(STEPS[step], lambda request: broker.links[0].wire.close())
        with pytest.raises(ConnectFailed, match=f"{PHASES[step]}: .*closed by the broker") as caught:
            await broker.open()
        assert caught.value.retriable

    with_broker(test)


def test_a_broker_that_hangs_up_while_credentials_are_fetched() -> None:
    async def test(broker: SaslBroker) -> None:
        async def login(host: str) -> Authenticator:
            broker.links[0].wire.close()
            await until(lambda: not broker.links)
            return await plain(host)

        with pytest.raises(ConnectFailed, match=r"sasl: .*closed by the broker"):
            await broker.open(login)

    with_broker(test)


@pytest.mark.usefixtures("time_skips")
def test_credentials_that_never_come() -> None:
    async def test(broker: SaslBroker) -> None:
        async def login(host: str) -> Authenticator:
            return await asyncio.get_running_loop().create_future()

        with pytest.raises(ConnectFailed, match="sasl: the login gave no credentials within connect_timeout_ms=300"):
            await broker.open(login, timeout_ms=300)

    with_broker(test)


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (ValueError(PASSWORD), ConnectFailed, "sasl: no credentials: the login raised ValueError"),
        (OSError("down"), ConnectFailed, "sasl: no credentials: the login raised OSError"),
        (asyncio.CancelledError(), ConnectFailed, "sasl: no credentials: the login raised CancelledError"),
        (ConfigurationError("sasl_mechanism", "GSSAPI", "needs gssapi"), ConfigurationError, "needs gssapi"),
        (KafkaWireError("refused"), AuthenticationFailed, "sasl: refused"),
    ],
)
def test_credentials_that_cannot_be_had(raised: BaseException, kind: type[Exception], text: str) -> None:
    """The exception from a user's function is the cause, but is not quoted, because it may contain a secret."""

    async def test(broker: SaslBroker) -> None:
        async def login(host: str) -> Authenticator:
            raise raised

        with pytest.raises(kind, match=text) as caught:
            await broker.open(login)
        assert PASSWORD not in str(caught.value)

    with_broker(test)


def test_cancelled_at_each_await() -> None:
    """Wherever the caller gives up, the connection is closed and no task continues."""

    async def test(broker: SaslBroker) -> None:
        for turns in range(40):
            opening = asyncio.ensure_future(broker.open())
            for _ in range(turns):
                await asyncio.sleep(0)
            if not opening.cancel():
                (await opening).close()
                assert turns > len(STEPS)
                break
            with pytest.raises(asyncio.CancelledError):
                await opening
            await until(lambda: not broker.links)
        else:
            pytest.fail("the connection never opened")

    with_broker(test)


# --------------------------------------------------------------------------------------------------- logging in again


@pytest.mark.parametrize(("lifetime_ms", "least", "most"), [(600_000, 500, 570), (0, None, None)])
def test_when_to_log_in_again(lifetime_ms: int, least: float | None, most: float | None) -> None:
    """The next login comes after 85 to 95 % of the session, in seconds, and never comes if the session has no end."""

    async def test(broker: SaslBroker) -> None:
        broker.lifetimes_ms = [lifetime_ms]
        connection = await broker.open()
        timer = connection._gate._timer
        if least is None or most is None:
            assert timer is None
        else:
            assert timer is not None
            assert least < timer.when() - asyncio.get_running_loop().time() <= most
        connection.close()
        assert timer is None or timer.cancelled()

    with_broker(test)


@pytest.mark.usefixtures("time_skips")
def test_logging_in_again_while_requests_go_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafkawire.security")

    async def test(broker: SaslBroker) -> None:
        broker.lifetimes_ms = [30] * 5
        connection = await broker.open()
        while broker.logins < 6:
            await sleep_ms(10)
            assert await asyncio.gather(*[ask(connection) for _ in range(5)]) == [["t"]] * 5
        connection.close()

    with_broker(test)
    assert {record.getMessage() for record in caplog.records} == {"authenticated again at broker:9092"}


def test_requests_wait_for_the_login_and_keep_their_order() -> None:
    async def test(broker: SaslBroker) -> None:
        pending: list[Request] = []
        broker.lifetimes_ms = [20]
        connection = await broker.open()
        broker.script(ApiKey.SASL_HANDSHAKE, pending.append)
        await until(lambda: bool(pending))
        names = [[MetadataRequest.MetadataRequestTopic(name=f"t{number}")] for number in range(3)]
        waiting = [send_request(connection, MetadataRequest(each), MetadataResponse) for each in names]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(future.done() for future in waiting)
        link = broker.links[0]
        link.wire.write(link.connection.respond(pending[0], SaslHandshakeResponse()))
        late = send_request(connection, MetadataRequest([]), MetadataResponse)
        responses = await asyncio.gather(*waiting, late)
        assert [[topic.name for topic in each.topics] for each in responses] == [["t0"], ["t1"], ["t2"], []]
        connection.close()

    with_broker(test)


@pytest.mark.parametrize("step", [1, 2])
def test_a_broker_that_stalls_when_the_client_logs_in_again(step: int) -> None:
    async def test(broker: SaslBroker) -> None:
        broker.lifetimes_ms = [60_000]
        connection = await broker.open()
        connection._gate._timeout_ms = 50  # after the connection was made
        broker.script(STEPS[step], lambda request: None)
        log_in_again(connection)
        await until(lambda: broker.asked(STEPS[step])[1:] != [])
        with pytest.raises(RequestTimedOut, match="broker:9092 did not re-authenticate within 50 ms"):
            await ask(connection)
        assert not connection.is_open

    with_broker(test)


def test_a_password_that_was_changed() -> None:
    async def test(broker: SaslBroker) -> None:
        broker.lifetimes_ms = [60_000]
        connection = await broker.open()
        broker.refuses = True
        broker.script(ApiKey.SASL_HANDSHAKE, lambda request: hold(request))
        held: list[Request] = []

        def hold(request: Request) -> None:
            held.append(request)

        log_in_again(connection)
        await until(lambda: bool(held))
        waiting = send_request(connection, MetadataRequest([]), MetadataResponse)
        link = broker.links[0]
        link.wire.write(link.connection.respond(held[0], SaslHandshakeResponse()))
        with pytest.raises(ConnectionLost, match=r"the client could not log in again: .*wrong user or password"):
            await waiting
        assert not connection.is_open
        with pytest.raises(AuthenticationFailed, match="wrong user or password"):
            await broker.open()

    with_broker(test)


def test_credentials_that_fail_for_a_while(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The session continues in the meantime, and the log explains why it may end soon."""
    monkeypatch.setattr(gate, "CREDENTIALS_PAUSE_MS", 1)
    caplog.set_level(logging.WARNING, "kafkawire.security")
    failures: list[Exception] = [ValueError(PASSWORD), OSError("down"), ValueError("again")]

    async def test(broker: SaslBroker) -> None:
        async def login(host: str) -> Authenticator:
            if broker.logins and failures:
                assert await ask(connection) == ["t"]
                raise failures.pop()
            return await plain(host)

        broker.lifetimes_ms = [60_000]
        connection = await broker.open(login)
        log_in_again(connection)
        await until(lambda: broker.logins == 2)
        assert await ask(connection) == ["t"]
        connection.close()

    with_broker(test)
    assert [record.getMessage() for record in caplog.records] == [
        "no new credentials for broker:9092, asking again: no credentials: the login raised ValueError",
    ]  # the other failures came within the same log interval


def logging_in_once(broker: SaslBroker) -> Callable[[str], Awaitable[Authenticator]]:
    """Return a function that gets credentials for the first login to a broker, and fails after that."""

    async def login(host: str) -> Authenticator:
        if broker.logins:
            raise OSError("down")
        return await plain(host)

    return login


def test_failure_to_get_credentials_is_logged_before_the_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gate, "CREDENTIALS_PAUSE_MS", 60_000)
    caplog.set_level(logging.WARNING, "kafkawire.security")

    async def test(broker: SaslBroker) -> None:
        broker.lifetimes_ms = [3_600_000]
        connection = await broker.open(logging_in_once(broker))
        log_in_again(connection)
        await until(lambda: bool(caplog.records))
        connection.close()

    with_broker(test)


def test_credentials_that_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends when its session does."""
    monkeypatch.setattr(gate, "CREDENTIALS_PAUSE_MS", 1)

    async def test(broker: SaslBroker) -> None:
        broker.lifetimes_ms = [60]
        connection = await broker.open(logging_in_once(broker))
        await until(lambda: not connection.is_open)
        with pytest.raises(ConnectionLost, match="has ended") as caught:
            send_request(connection, MetadataRequest([]), MetadataResponse)
        assert isinstance(caught.value.__cause__, ConnectionLost)
        assert "no credentials: the login raised OSError" in str(caught.value.__cause__)

    with_broker(test)


def test_credentials_that_hang_when_the_client_logs_in_again() -> None:
    """Each attempt to get credentials has a time limit, and the connection ends when its session does."""

    async def test(broker: SaslBroker) -> None:
        async def login(host: str) -> Authenticator:
            if broker.logins:
                await asyncio.get_running_loop().create_future()
            return await plain(host)

        broker.lifetimes_ms = [500]
        connection = await broker.open(login)
        connection._gate._timeout_ms = 50  # after the connection was made
        log_in_again(connection)
        await until(lambda: not connection.is_open)
        with pytest.raises(ConnectionLost) as caught:
            send_request(connection, MetadataRequest([]), MetadataResponse)
        assert "the login gave no credentials within connect_timeout_ms=50" in str(caught.value.__cause__)

    with_broker(test)


@pytest.mark.usefixtures("time_skips")
@pytest.mark.parametrize(("waits_ms", "fetched"), [(20_000, 3), (500, 2)])
def test_credentials_that_have_waited_for_the_broker_are_fetched_again(waits_ms: int, fetched: int) -> None:
    """The broker answers the handshake after a long request that was sent before it."""

    async def test(broker: SaslBroker) -> None:
        made: list[Authenticator] = []

        async def login(host: str) -> Authenticator:
            made.append(await plain(host))
            return made[-1]

        async def answer_late(request: Request) -> None:
            await sleep_ms(waits_ms)
            link.wire.write(link.connection.respond(request, SaslHandshakeResponse()))

        broker.lifetimes_ms = [60_000, 60_000]
        connection = await broker.open(login, timeout_ms=30_000)
        link, late = broker.links[0], list[asyncio.Future[None]]()
        broker.script(ApiKey.SASL_HANDSHAKE, lambda request: late.append(asyncio.ensure_future(answer_late(request))))
        log_in_again(connection)
        while broker.logins < 2:
            await sleep_ms(100)
        assert len(made) == fetched
        assert connection._protocol.session_ends_ms >= monotonic_ms() + 59_000, "the session began late"
        connection.close()

    with_broker(test)


def closers() -> dict[str, Callable[[SaslBroker, BrokerConnection], Any]]:
    return {
        "by the client": lambda broker, connection: connection.close(),
        "by the broker": lambda broker, connection: broker.links[0].wire.close(),
    }


@pytest.mark.parametrize("who", ["by the client", "by the broker"])
@pytest.mark.parametrize("where", ["credentials", "handshake", "pause"])
def test_a_connection_that_ends_meanwhile(who: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No task or timer is left, whatever the login was waiting for."""
    if where == "pause":
        monkeypatch.setattr(gate, "CREDENTIALS_PAUSE_MS", 10)

    async def test(broker: SaslBroker) -> None:
        reached = asyncio.Event()

        async def login(host: str) -> Authenticator:
            if broker.logins == 0 or where == "handshake":
                return await plain(host)
            reached.set()
            if where == "pause":
                raise OSError("down")
            return await asyncio.get_running_loop().create_future()

        broker.lifetimes_ms = [60_000]
        connection = await broker.open(login)
        broker.script(ApiKey.SASL_HANDSHAKE, lambda request: reached.set())
        log_in_again(connection)
        await reached.wait()
        await asyncio.sleep(0)
        closers()[who](broker, connection)
        await until(lambda: not connection.is_open)

    with_broker(test)
