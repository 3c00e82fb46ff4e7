"""Requests get their responses; however a connection ends, every pending request fails with the reason.

Method: let the scripted in-memory broker respond, stay silent, or send bytes that are not a response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from struct import Struct
from typing import Any

import pytest

from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    LocalProtocolError,
    NeverAnswered,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersion,
)
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES, frame
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange as V
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.memory import MemoryWire
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address, Wire
from tests.sdk.scripted_broker import BROKER, ScriptedBroker
from tests.sdk.transport.responses import response_to, send_request

SETTINGS = ConnectionSettings(connect_timeout_ms=1000, request_timeout_ms=1000)

#: The longest time for which any test waits.
PATIENCE_SECONDS = 10


def connected(
    test: Callable[[ScriptedBroker, BrokerConnection], Awaitable[None]], settings: ConnectionSettings = SETTINGS
) -> None:
    """Run a test with a broker and a connection to it."""

    async def run() -> None:
        broker = ScriptedBroker({"t": 2})
        connection = await BrokerConnection.open(broker.network, BROKER, settings)
        try:
            await test(broker, connection)
        finally:
            connection.close()

    asyncio.run(run())


def test_responses_reach_their_requests() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        named = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")])
        responses = await asyncio.gather(
            response_to(connection, MetadataRequest([]), MetadataResponse),
            response_to(connection, named, MetadataResponse),
            response_to(connection, MetadataRequest(None), MetadataResponse, 4),
        )
        assert [len(response.topics) for response in responses] == [0, 1, 1]
        assert connection.in_flight == 0

    connected(test)


def test_version_is_the_highest_of_both() -> None:
    async def run() -> None:
        broker = ScriptedBroker(
            supported={ApiKey.API_VERSIONS: V(0, 2), ApiKey.METADATA: V(0, 9), ApiKey.FETCH: V(0, 3)}
        )
        broker.script(
            ApiKey.API_VERSIONS, lambda request: ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        )
        connection = await BrokerConnection.open(broker.network, BROKER, SETTINGS)
        assert connection.version_for(MetadataRequest) == 9
        assert connection.feature_level("transaction.version") == 0
        await response_to(connection, MetadataRequest([]), MetadataResponse)  # a later version would end the connection
        with pytest.raises(UnsupportedVersion, match="FindCoordinator: the broker does not support this API"):
            connection.version_for(FindCoordinatorRequest)
        with pytest.raises(UnsupportedVersion, match="the broker 0-3"):
            connection.version_for(FetchRequest)
        connection.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("speaks", "listed", "asked"),
    [
        (V(0, 4), V(0, 4), [4]),
        (V(0, 2), V(0, 2), [4, 2]),
        (V(0, 2), None, [4, 0]),
        (V(0, 1), V(0, 4), [4, 3, 2, 1]),
    ],
    ids=["same", "older", "before KIP-511", "behind a proxy of another version"],
)
def test_handshake_with_brokers_of_other_versions(speaks: V, listed: V | None, asked: list[int]) -> None:
    """The handshake ends with the highest version that the broker supports, or with the lowest if it lists none."""

    async def run() -> None:
        broker, versions = ScriptedBroker(), []

        class Peer:
            """A peer that answers ApiVersions like Kafka, in version 0 if it does not support the request's version."""

            def __init__(self, wire: Wire) -> None:
                self.wire = wire

            def receive_frame(self, frame: Buffer) -> None:
                self.wire.write([self.answer(frame)])

            def answer(self, request: Buffer) -> bytes:
                key, version = Struct(">hh").unpack_from(request)
                assert key == ApiKey.API_VERSIONS
                versions.append(version)
                spoken = version in speaks
                response = ApiVersionsResponse(error_code=ErrorCode.NONE if spoken else ErrorCode.UNSUPPORTED_VERSION)
                keys = {ApiKey.API_VERSIONS: listed, ApiKey.METADATA: V(0, 9) if spoken else None}
                response.api_keys = [ApiVersionsResponse.ApiVersion(k, *v) for k, v in keys.items() if v is not None]
                body = codec(ApiVersionsResponse, version if spoken else 0).encode(response)
                return frame(bytes(request[4:8]) + body)

            def connection_lost(self, error: Exception | None) -> None:
                pass

        broker.network.servers[BROKER] = Peer
        connection = await BrokerConnection.open(broker.network, BROKER, SETTINGS)
        assert versions == asked
        assert connection.version_for(MetadataRequest) == 9
        connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("content", [b"", bytes(100_000)])
def test_a_large_response_while_connecting_is_refused_by_its_length(content: bytes) -> None:
    async def run() -> None:
        class Peer:
            """A peer that starts a response of 100 MiB and never completes it."""

            def __init__(self, wire: Wire) -> None:
                self.wire = wire

            def receive_frame(self, frame: Buffer) -> None:
                self.wire.write([MAX_FRAME_BYTES.to_bytes(4, "big"), content])

            def connection_lost(self, error: Exception | None) -> None:
                pass

        broker = ScriptedBroker()
        broker.network.servers[BROKER] = Peer
        text = (
            "versions: the ApiVersions response has 104857600 bytes, but at most 1048576 are allowed while connecting"
        )
        with pytest.raises(ConnectFailed, match=text):
            await BrokerConnection.open(broker.network, BROKER, SETTINGS)

    asyncio.run(run())


def test_version_that_carries_a_field() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        highest = connection.version_for(FetchRequest)
        assert connection.version_for(FetchRequest, (FetchRequest.FetchTopic, "topic")) < highest
        assert connection.version_for(FetchRequest, (FetchRequest.FetchTopic, "topic_id")) == highest

    connected(test)


def test_nobody_listens() -> None:
    async def run() -> None:
        network = ScriptedBroker().network
        with pytest.raises(ConnectFailed, match="cannot connect to elsewhere:1: tcp: nothing listens") as caught:
            await BrokerConnection.open(network, Address("elsewhere", 1), SETTINGS)
        assert caught.value.retriable

    asyncio.run(run())


@pytest.mark.parametrize("option", ["connect_timeout_ms", "request_timeout_ms"])
def test_a_port_that_accepts_and_says_nothing(option: str) -> None:
    """The shorter of the two timeouts applies."""

    async def run() -> None:
        broker = ScriptedBroker()
        broker.script(ApiKey.API_VERSIONS, lambda request: None)
        limits = {"connect_timeout_ms": 600_000, "request_timeout_ms": 600_000, option: 20}
        text = (
            f"versions: it accepted the connection and sent nothing within {option}=20: is this a TLS or an HTTP port"
        )
        with pytest.raises(ConnectFailed, match=text):
            await BrokerConnection.open(broker.network, BROKER, SETTINGS._replace(**limits))
        await asyncio.sleep(0)
        assert broker.links == []

    asyncio.run(run())


@pytest.mark.usefixtures("time_skips")
def test_an_encrypted_port_that_says_nothing_is_not_asked_for_tls() -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        broker.script(ApiKey.API_VERSIONS, lambda request: None)
        accept = broker.network.open

        async def opened(address: Address, receiver: Callable[[Wire], Any], enter: Any) -> Any:
            enter(ConnectionState.TLS)
            return await accept(address, receiver, enter)

        broker.network.open = opened  # type: ignore[assignment, method-assign]  # as over TLS
        with pytest.raises(ConnectFailed, match="versions: ") as caught:
            await BrokerConnection.open(broker.network, BROKER, SETTINGS._replace(connect_timeout_ms=20))
        assert "is this a TLS" not in str(caught.value)

    asyncio.run(run())


def test_a_host_with_a_long_label() -> None:
    """Metadata may name such a host; addresses from the user are checked when they are read."""

    async def run() -> None:
        with pytest.raises(
            ConnectFailed, match="dns: a part of the name has 70 characters, but at most 63 are allowed"
        ):
            await BrokerConnection.open(TcpNetwork(), Address("x" * 70, 9092), SETTINGS)

    asyncio.run(run())


def test_a_broker_that_does_not_speak_the_protocol() -> None:
    async def run() -> None:
        broker = ScriptedBroker()

        def rubbish(request: object) -> None:
            broker.links[0].wire.write([frame(b"HTTP/1.1 400 Bad Request")])

        broker.script(ApiKey.API_VERSIONS, rubbish)
        with pytest.raises(ConnectFailed, match="correlation id") as caught:
            await BrokerConnection.open(broker.network, BROKER, SETTINGS)
        assert isinstance(caught.value.__cause__, RemoteProtocolError)

    asyncio.run(run())


def test_a_lost_connection_fails_all_pending_requests() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        broker.script(ApiKey.FIND_COORDINATOR, lambda request: None, lambda request: None)
        waiting = [send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0) for _ in range(2)]
        await asyncio.sleep(0)
        broker.stop()
        errors = []
        for future in waiting:
            with pytest.raises(
                ConnectionLost, match="connection to broker:9092 was lost: closed by the broker"
            ) as caught:
                await future
            errors.append(caught.value)
        assert errors[0] is not errors[1]
        assert not connection.is_open
        with pytest.raises(ConnectionLost, match="has ended"):
            send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0)
        with pytest.raises(ConnectionLost, match="has ended"):
            connection.post(FindCoordinatorRequest(), 0)

    connected(test)


@pytest.mark.parametrize("answers", [0, 1])
def test_a_connection_that_ends_before_any_answer_may_lack_sasl(answers: int) -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        responses = [lambda request: FindCoordinatorResponse() for _ in range(answers)]
        broker.script(ApiKey.FIND_COORDINATOR, *responses, lambda request: None)
        for _ in range(answers):
            await send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0)
        waiting = send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0)
        await asyncio.sleep(0)
        broker.stop()
        with pytest.raises(ConnectionLost, match="closed by the broker") as caught:
            await waiting
        assert type(caught.value) is (ConnectionLost if answers else NeverAnswered)
        assert ("does this port use SASL?" in str(caught.value)) == (not answers)

    connected(test)


def test_a_response_that_cannot_be_decoded_ends_the_connection() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        def cut_off(request: object) -> None:
            correlation_id = broker.requests[-1].correlation_id.to_bytes(4, "big")
            broker.links[0].wire.write([frame(correlation_id + b"\0\0")])

        broker.script(ApiKey.FIND_COORDINATOR, cut_off)
        with pytest.raises(ConnectionLost, match=r"data from the broker is damaged: .* at byte") as caught:
            await response_to(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0)
        assert isinstance(caught.value.__cause__, RemoteProtocolError)
        assert not connection.is_open

    connected(test)


def test_a_frame_that_breaks_the_protocol_ends_the_connection_and_is_the_cause() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        ends: list[KafkaWireError] = []
        connection.on_end = ends.append
        pending = send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse)
        broker.responders[ApiKey.FIND_COORDINATOR] = lambda request: None
        error = RemoteProtocolError("4 GiB announced")
        connection.connection_lost(error)
        connection.connection_lost(None)
        assert [(type(end), end.__cause__) for end in ends] == [(ConnectionLost, error)]
        with pytest.raises(ConnectionLost, match="4 GiB announced") as caught:
            await pending
        assert caught.value.__cause__ is error

    connected(test)


def test_an_ended_connection_leaves_no_timer() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        broker.responders[ApiKey.FIND_COORDINATOR] = lambda request: None
        pending = send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse)
        timer = connection._timer
        assert timer is not None
        connection.close()
        assert timer.cancelled()
        with pytest.raises(ConnectionLost):
            await pending

    connected(test)


def test_defaults_are_those_of_the_options() -> None:
    options = read_options(AdminOptions, str(BROKER), {})
    settings = ConnectionSettings()
    assert settings.connect_timeout_ms == options.connect_timeout_ms
    assert settings.request_timeout_ms == options.request_timeout_ms


def test_a_request_that_is_not_answered_in_time() -> None:
    """The request fails with RequestTimedOut, and so do the connection's other pending requests."""

    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        broker.script(ApiKey.FIND_COORDINATOR, lambda request: None, lambda request: None)
        patient = send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0, timeout_ms=60_000)
        hasty = send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0, timeout_ms=20)
        for future in (hasty, patient):
            with pytest.raises(RequestTimedOut, match="broker:9092 did not respond to FindCoordinator within 20 ms"):
                await future
        assert not connection.is_open

    connected(test)


def test_the_deadline_of_a_request_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier request that was answered leaves no deadline behind, whether that time has passed or not.

    Only the test moves the clock, so no response has to arrive within a real time.
    """
    now_ms = 1_000
    monkeypatch.setattr("kafkawire.sdk.transport.connection.monotonic_ms", lambda: now_ms)

    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        nonlocal now_ms
        await response_to(connection, MetadataRequest([]), MetadataResponse, timeout_ms=20)
        now_ms += 20
        _run_timer(connection)
        assert connection._timer is None
        broker.script(ApiKey.FIND_COORDINATOR, lambda request: None)
        waiting = send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, 0, timeout_ms=60)
        now_ms += 59
        _run_timer(connection)
        assert connection.is_open
        now_ms += 1
        async with asyncio.timeout(PATIENCE_SECONDS):  # the connection checks again by itself
            with pytest.raises(RequestTimedOut, match="within 60 ms"):
                await waiting

    connected(test)


def _run_timer(connection: BrokerConnection) -> None:
    """Do what the deadline timer does when it fires."""
    assert connection._timer is not None, "no timer checks the deadlines"
    connection._timer.cancel()
    connection._check_deadlines()


def test_a_cancelled_caller_leaves_the_connection_to_the_others() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        first = asyncio.ensure_future(response_to(connection, MetadataRequest([]), MetadataResponse))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        response = await response_to(connection, MetadataRequest(None), MetadataResponse)
        assert [topic.name for topic in response.topics] == ["t"]

    connected(test)


def test_requests_in_flight_are_bounded() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        futures = [send_request(connection, MetadataRequest([]), MetadataResponse) for _ in range(2)]
        with pytest.raises(LocalProtocolError, match="2 requests are in flight, but at most 2 are allowed"):
            send_request(connection, MetadataRequest([]), MetadataResponse)
        await asyncio.gather(*futures)

    connected(test, SETTINGS._replace(max_in_flight=2))


class Counting:
    """Records the number of bytes sent and received, and the times."""

    def __init__(self) -> None:
        self.sent_bytes: list[int] = []
        self.received_bytes: list[int] = []
        self.times_ms: list[int] = []

    def sent(self, parts: Iterable[Buffer], now_ms: int) -> None:
        self.sent_bytes.append(sum(map(len, parts)))
        self.times_ms.append(now_ms)

    def received(self, size_bytes: int, now_ms: int) -> None:
        self.received_bytes.append(size_bytes)
        self.times_ms.append(now_ms)


def test_requests_and_responses_are_counted_and_the_handshake_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Counting()

    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        assert (traffic.sent_bytes, traffic.received_bytes) == ([], [])
        written: list[int] = []
        write = MemoryWire.write

        def note(wire: MemoryWire, parts: Sequence[Buffer]) -> None:
            written.append(sum(map(len, parts)))
            write(wire, parts)

        monkeypatch.setattr(MemoryWire, "write", note)
        started_ms = monotonic_ms()
        await response_to(connection, MetadataRequest(None), MetadataResponse)
        request_bytes, response_bytes = written
        assert traffic.sent_bytes == [request_bytes]
        assert traffic.received_bytes == [response_bytes - LENGTH_BYTES]
        connection.post(ProduceRequest(acks=0))
        assert traffic.sent_bytes == [request_bytes, written[2]]
        assert started_ms <= min(traffic.times_ms) <= max(traffic.times_ms) <= monotonic_ms()

    connected(test, SETTINGS._replace(traffic=traffic))


def test_closing_fails_pending_requests_too() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        future = send_request(connection, MetadataRequest([]), MetadataResponse)
        connection.close()
        with pytest.raises(ConnectionLost, match="was closed by this client"):
            await future

    connected(test)


def test_a_connection_that_this_client_closes_has_not_ended_by_itself() -> None:
    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        ends: list[KafkaWireError] = []
        connection.on_end = ends.append
        connection.close()
        assert not ends

    connected(test)


def test_what_a_lost_connection_has_not_sent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wire stops waiting when nothing more can be sent."""

    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        async def lost(wire: MemoryWire) -> None:
            connection.connection_lost(None)

        monkeypatch.setattr(MemoryWire, "sent", lost)
        with pytest.raises(ConnectionLost, match="has ended"):
            await connection.sent()

    connected(test)


@pytest.mark.parametrize("has_unsent", [False, True])
def test_an_ended_connection_waits_for_no_unsent_bytes(monkeypatch: pytest.MonkeyPatch, has_unsent: bool) -> None:
    """The peer may hang, and the event loop may end together with the client."""
    ended: list[str] = []
    for name in ("close", "abort"):
        monkeypatch.setattr(MemoryWire, name, lambda wire, name=name: (ended.append(name), wire.break_off(None)))

    async def test(broker: ScriptedBroker, connection: BrokerConnection) -> None:
        monkeypatch.setattr(MemoryWire, "has_unsent", has_unsent)
        connection.close()
        assert ended == ["abort" if has_unsent else "close"]

    connected(test)
