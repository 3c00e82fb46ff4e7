"""A client starts on either kind of event loop, or says why it cannot, and leaves nothing behind.

Method: start clients with a scripted in-memory broker, and on a network where nothing listens.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import ClientOptions, read_options
from kafkawire.sdk.errors import (
    AuthenticationFailed,
    Closed,
    ConfigurationError,
    ConnectFailed,
    KafkaWireError,
    LocalProtocolError,
    NeverAnswered,
)
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sdk.transport.wire import Address
from tests.sdk.scripted_broker import BROKER, ScriptedBroker

IO: Any = pytest.mark.parametrize("io", ["loop", "thread"])


def core(broker: ScriptedBroker, io: Any, **given: Any) -> ClientCore:
    """Return a client for a broker."""
    return ClientCore("reader", read_options(ClientOptions, str(BROKER), {"io": io, **given}), broker.network)


@IO
def test_start_and_end(io: Any) -> None:
    async def run() -> None:
        client = core(ScriptedBroker({"t": 3}), io)
        await client.start()
        assert set(client.router.metadata.brokers) == {1}
        assert len((await client.perform(client.operations.describe(["t"])))["t"].partitions) == 3
        with pytest.raises(LocalProtocolError, match="the reader was already started"):
            client.start()
        await client.finish()
        with pytest.raises(Closed, match="the reader is not started, or is closed"):
            client.perform(client.operations.describe(["t"]))

    asyncio.run(run())
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kafkawire ")] == []


def hang_up(broker: ScriptedBroker) -> Any:
    """Return a responder that closes all connections instead of answering."""

    def respond(request: Any) -> None:
        for link in list(broker.links):
            asyncio.get_running_loop().call_soon(link.wire.close)

    return respond


@IO
def test_a_connection_that_is_lost_does_not_end_the_start(io: Any) -> None:
    async def run() -> None:
        broker = ScriptedBroker({"t": 3})
        broker.script(ApiKey.METADATA, hang_up(broker))
        client = core(broker, io, retry_backoff_ms=20)
        await client.start()
        assert not broker.once[ApiKey.METADATA], "the first connection must have been lost"
        await client.finish()

    asyncio.run(run())


@IO
def test_a_broker_that_always_hangs_up_is_given_up(io: Any) -> None:
    async def run() -> None:
        broker = ScriptedBroker({"t": 3})
        broker.responders[ApiKey.METADATA] = hang_up(broker)
        timeouts = {"api_timeout_ms": 50, "request_timeout_ms": 50, "connect_timeout_ms": 50}
        client = core(broker, io, retry_backoff_ms=20, retry_backoff_max_ms=20, **timeouts)
        with pytest.raises(KafkaWireError, match=r"lost|in time|did not respond"):
            await client.start()
        await client.finish()

    asyncio.run(run())


@IO
def test_a_port_that_expects_sasl_is_reported_at_once(io: Any) -> None:
    """Such a broker sends its versions but closes the connection on the first request, so `start` can fail immediately.

    This broker stops answering after three requests, because the I/O thread would keep asking until the caller's thread
    runs.
    """

    async def run() -> None:
        broker, asked = ScriptedBroker({"t": 3}), [0]

        def respond(request: Any) -> None:
            asked[0] += 1
            if asked[0] <= 3:
                hang_up(broker)(request)

        broker.responders[ApiKey.METADATA] = respond
        client = core(broker, io, retry_backoff_ms=1)
        try:
            with pytest.raises(
                (ConnectFailed, NeverAnswered), match="before it responded to a request; does this port use"
            ):
                await client.start()
        finally:
            await client.finish()

    asyncio.run(run())


@IO
@pytest.mark.parametrize("count", [1, 2])
def test_each_server_is_asked_once_if_none_answers_in_time(io: Any, count: int) -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        asked: list[Any] = []
        broker.responders[ApiKey.METADATA] = asked.append
        servers = [Address(f"server{number}", 9092) for number in range(count)]
        broker.network.servers = dict.fromkeys(servers, broker.network.servers[BROKER])
        timeouts = {"api_timeout_ms": 50, "request_timeout_ms": 50, "connect_timeout_ms": 50}
        options = read_options(ClientOptions, [str(server) for server in servers], {"io": io, **timeouts})
        client = ClientCore("reader", options, broker.network)
        with pytest.raises(KafkaWireError, match=r"in time|did not respond"):
            await client.start()
        await client.finish()
        assert len(asked) == count

    asyncio.run(run())


@IO
@pytest.mark.parametrize("turns", range(1, 4))
def test_a_cancelled_end_lets_go_of_everything(io: Any, turns: int) -> None:
    async def run() -> None:
        client = core(ScriptedBroker({"t": 3}), io)
        await client.start()
        ending = asyncio.ensure_future(client.finish())
        for _ in range(turns):
            await asyncio.sleep(0)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kafkawire ")] == []


@IO
def test_nothing_listens(io: Any) -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        broker.stop()
        client = core(broker, io)
        with pytest.raises(ConnectFailed, match=r"any broker: .*nothing listens") as caught:
            await client.start()
        assert (caught.value.phase, caught.value.address) == ("tcp", str(BROKER))
        assert isinstance(caught.value.__cause__, ConnectFailed)
        await client.finish()

    asyncio.run(run())


@IO
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED])
def test_every_connection_logs_in(io: Any, code: ErrorCode) -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        broker.responders[ApiKey.SASL_HANDSHAKE] = lambda request: SaslHandshakeResponse()
        broker.responders[ApiKey.SASL_AUTHENTICATE] = lambda request: SaslAuthenticateResponse(code, "wrong password")
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        client = core(broker, io, **login, sasl_username="alice", sasl_password="pencil")
        if code is ErrorCode.NONE:
            await client.start()
        else:
            with pytest.raises(AuthenticationFailed, match=r"sasl: .*wrong password"):
                await client.start()
        await client.finish()
        assert broker.asked(ApiKey.SASL_AUTHENTICATE) == [SaslAuthenticateRequest(b"\0alice\0pencil")]

    asyncio.run(run())


@IO
def test_certificates_that_cannot_be_used(io: Any) -> None:
    async def run() -> None:
        given = {"io": io, "security_protocol": "SSL", "ssl_truststore_location": "/nowhere.pem"}
        client = ClientCore("reader", read_options(ClientOptions, "localhost:1", given), None)
        with pytest.raises(ConfigurationError, match="No such file"):
            await client.start()
        await client.finish()

    asyncio.run(run())


def test_a_blocking_caller_needs_no_event_loop() -> None:
    client = core(ScriptedBroker({"t": 1}), "thread")
    client.start().wait(5)
    assert set(client.perform(client.operations.describe(None)).wait(5)) == {"t"}
    result_of(client.finish)


@IO
def test_a_defect_of_an_operation_is_raised_where_it_was_asked_for(io: Any) -> None:
    async def broken() -> None:
        raise TypeError("wrong argument")

    async def run() -> None:
        client = core(ScriptedBroker({"t": 1}), io)
        await client.start()
        with pytest.raises(TypeError, match="wrong argument"):
            await client.perform(broken())
        assert await client.perform(client.operations.describe(["t"])), "the client must keep working"
        await client.finish()

    asyncio.run(run())


def test_a_login_that_is_refused_in_the_first_turn_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's thread may be faster than the thread that starts the client."""

    async def run() -> None:
        broker = ScriptedBroker()
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        broker.responders[ApiKey.SASL_HANDSHAKE] = lambda request: SaslHandshakeResponse()
        broker.responders[ApiKey.SASL_AUTHENTICATE] = lambda request: SaslAuthenticateResponse(code, "wrong password")
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        client = core(broker, "thread", **login, sasl_username="alice", sasl_password="pencil")
        refused = threading.Event()
        closed, start = client.router.closed, client.driver.start

        def end(*arguments: Any) -> None:
            closed(*arguments)
            refused.set()

        def start_slowly(loop: Any) -> None:
            start(loop)
            assert refused.wait(10)

        monkeypatch.setattr(client.router, "closed", end)
        monkeypatch.setattr(client.driver, "start", start_slowly)
        with pytest.raises(AuthenticationFailed):
            await client.start()
        await client.finish()
        assert len(broker.asked(ApiKey.SASL_AUTHENTICATE)) == 1

    asyncio.run(run())
