"""The online suite distinguishes a broker that follows Kafka from one that does not.

Method: run small hand-built brokers behind a real socket, each wrong in one way, and check which suites fail.
`tests/reference_broker` and, for Apache Kafka, `tests/kafka` test brokers that are entirely correct.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from kafkawire.conformance.broker_suite import BrokerSuite, _check_response
from kafkawire.conformance.report import Suite
from kafkawire.conformance.requests import UNSAFE, Names
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.connection import ClientConnection, Request, ServerConnection
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import ConnectionEnded

SHAPES = ("defaults", "filled")

SUPPORTED = {key: APIS[key].versions for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_GROUPS)}


def good(request: Request) -> Message:
    """Return a default response, or a correct one for ApiVersions."""
    if request.api.key != ApiKey.API_VERSIONS:
        return request.api.response()
    entries = [ApiVersionsResponse.ApiVersion(key, *versions) for key, versions in SUPPORTED.items()]
    error = ErrorCode.UNSUPPORTED_VERSION if request.version_error else ErrorCode.NONE
    return ApiVersionsResponse(error_code=error, api_keys=entries)


class Broker:
    """Accept connections, one at a time, and respond as a test chooses."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def spoil(self, frame: bytes, request: Request) -> bytes:
        """Return the bytes to send instead of `frame`; faulty brokers override this method."""
        return frame

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread; closing alone does not
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        server, buffer = ServerConnection(SUPPORTED), FrameBuffer()
        try:
            while data := connection.recv(65536):
                for content in buffer.receive(data):
                    request = server.receive(content)
                    connection.sendall(self.spoil(b"".join(server.respond(request, good(request))), request))
        except KafkaWireError:
            self.refuse(connection)
        except OSError:
            return

    def refuse(self, connection: socket.socket) -> None:
        """Do nothing about an unreadable request, so that the connection is closed, as in Kafka."""


@contextmanager
def running(broker: Broker) -> Iterator[Broker]:
    try:
        yield broker
    finally:
        broker.stop()


def ask(broker: Broker) -> list[Suite]:
    with running(broker):
        suites = list(BrokerSuite("127.0.0.1", broker.port, Names(), timeout_seconds=0.5).run())
    assert sum(suite.passed for suite in suites) > 0
    return suites


def failing(broker: Broker) -> list[str]:
    return [suite.name for suite in ask(broker) if suite.failures]


class ExtraBytes(Broker):
    def spoil(self, frame: bytes, request: Request) -> bytes:
        if request.api.key != ApiKey.LIST_GROUPS:
            return frame
        return (len(frame) - 3).to_bytes(4, "big") + frame[4:] + b"\0"


class WrongOrder(Broker):
    def spoil(self, frame: bytes, request: Request) -> bytes:
        if request.api.key != ApiKey.METADATA:
            return frame
        return frame[:4] + (request.correlation_id + 1).to_bytes(4, "big") + frame[8:]


class CutResponse(Broker):
    def spoil(self, frame: bytes, request: Request) -> bytes:
        if request.api.key != ApiKey.LIST_GROUPS:
            return frame
        return (len(frame) - 5).to_bytes(4, "big") + frame[4:-1]


class NoFallback(Broker):
    def spoil(self, frame: bytes, request: Request) -> bytes:
        return frame[:8] + b"\0\0" + frame[10:] if request.version_error else frame


class AnswersEverything(Broker):
    def refuse(self, connection: socket.socket) -> None:
        connection.sendall(bytes.fromhex("00000004 00000000"))


class ForgetsVersions(Broker):
    """Accepts the handshake, then refuses the agreed version."""

    def __init__(self) -> None:
        self.asked = 0
        super().__init__()

    def spoil(self, frame: bytes, request: Request) -> bytes:
        self.asked += 1
        if request.api.key != ApiKey.API_VERSIONS or self.asked == 1:
            return frame
        return bytes.fromhex("0000000a") + frame[4:8] + bytes.fromhex("0023 00000000")


class OddList(Broker):
    """Lists an API that this release does not know, a removed API, and an empty range."""

    def __init__(self) -> None:
        self.listed = [(9999, 0, 5), (ApiKey.LEADER_AND_ISR, 0, 1), (ApiKey.FIND_COORDINATOR, 3, 2)]
        super().__init__()

    def spoil(self, frame: bytes, request: Request) -> bytes:
        if request.api.key != ApiKey.API_VERSIONS or request.version_error:
            return frame
        response = good(request)
        assert isinstance(response, ApiVersionsResponse)
        more = [ApiVersionsResponse.ApiVersion(*entry) for entry in self.listed]
        response.api_keys = [*response.api_keys, *more]
        body = frame[4:8] + codec(ApiVersionsResponse, request.version).encode(response)
        return len(body).to_bytes(4, "big") + body


class HangingSocket:
    """Stands in for a connection to a broker that answers some requests and ignores all others."""

    #: The request that gets no answer: an API and a version, or None for a version that the broker does not know.
    unanswered: tuple[int, int | None] | None = None

    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        self._server, self._buffer = ServerConnection(SUPPORTED), FrameBuffer()
        self._answers: list[bytes] = []
        self._is_ended = False

    def __enter__(self) -> HangingSocket:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def send(self, *parts: bytes) -> None:
        with suppress(KafkaWireError):
            for content in self._buffer.receive(b"".join(parts)):
                request = self._server.receive(content)
                version = None if request.version_error else request.version
                if (request.api.key, version) != self.unanswered:
                    self._answers.append(b"".join(self._server.respond(request, good(request)))[4:])

    def finish_sending(self) -> None:
        self._is_ended = True

    def receive(self) -> bytes:
        if self._answers:
            return self._answers.pop(0)
        raise ConnectionEnded("ended") if self._is_ended else TimeoutError("timed out")


BROKEN = {
    "unknown API key",
    "negative API key",
    "removed API",
    "Metadata beyond its highest version",
    "Metadata version 32767",
    "Metadata version -1",
    "negative length",
    "length of -2^31",
    "length beyond the maximum",
    "length of 2^31-1",
    "empty frame",
    "frame with half a header",
    "frame with a header cut in its client id",
    "frame cut in its body",
}

METADATA_LAST = SUPPORTED[ApiKey.METADATA].last


def test_a_broker_that_is_right() -> None:
    suites = ask(Broker())
    assert [suite.name for suite in suites if suite.failures] == []
    assert [suite.name for suite in suites] == [
        "ApiVersions, advertised ranges",
        "Metadata",
        "ListGroups",
        "ApiVersions",
        "pipelined requests",
        "unknown API and versions",
        "broken frames",
    ]
    assert suites[0].passed == 1 + len(SUPPORTED)  # the handshake and each range


@pytest.mark.parametrize(
    ("broker", "suites"),
    [
        (ExtraBytes, ["ListGroups"]),
        (CutResponse, ["ListGroups", "pipelined requests"]),
        (WrongOrder, ["Metadata", "pipelined requests", "broken frames"]),
        (NoFallback, ["unknown API and versions"]),
    ],
)
def test_a_broker_that_is_wrong(broker: type[Broker], suites: list[str]) -> None:
    assert failing(broker()) == suites


def test_a_broker_that_responds_to_what_it_cannot_read() -> None:
    suites = {suite.name: suite for suite in ask(AnswersEverything())}
    unknown, broken = suites["unknown API and versions"], suites["broken frames"]
    assert [failure.case for failure in unknown.failures] == [
        "unknown API key",
        "negative API key",
        "removed API",
        "Metadata beyond its highest version",
        "Metadata version 32767",
        "Metadata version -1",
    ]
    assert unknown.passed == 3
    assert {failure.reason for failure in unknown.failures} == {
        "the broker sent a response of 4 bytes instead of closing the connection"
    }
    assert "frame cut in its body" in [failure.case for failure in broken.failures]
    assert [suite.name for suite in suites.values() if suite.failures] == [unknown.name, broken.name]


@pytest.mark.parametrize(
    ("unanswered", "cases"),
    [
        (None, set()),
        ((ApiKey.API_VERSIONS, None), {f"ApiVersions version {version}" for version in (5, 99, 32767)}),
        ((ApiKey.METADATA, 0), {"version 0 defaults"}),
        ((ApiKey.METADATA, METADATA_LAST), {f"version {METADATA_LAST} defaults", "the broker still responds"}),
    ],
)
def test_a_broker_that_hangs(
    monkeypatch: pytest.MonkeyPatch, unanswered: tuple[int, int | None] | None, cases: set[str]
) -> None:
    monkeypatch.setattr("kafkawire.conformance.broker_suite.FrameSocket", HangingSocket)
    monkeypatch.setattr(HangingSocket, "unanswered", unanswered)
    failures = [failure for suite in BrokerSuite("", 0, Names()).run() for failure in suite.failures]
    single = {failure.case: failure.reason for failure in failures if not failure.case.startswith("request ")}
    assert single == dict.fromkeys(BROKEN, "the connection stays open, without a response") | dict.fromkeys(
        cases, "TimeoutError: timed out"
    )
    pipelined = [failure.reason for failure in failures if failure.case.startswith("request ")]
    missing = 17 if unanswered == (ApiKey.METADATA, METADATA_LAST) else 0
    assert pipelined.count("TimeoutError: timed out") == missing


def test_a_response_in_another_version_is_found() -> None:
    suites = {suite.name: suite for suite in ask(ForgetsVersions())}
    reasons = {failure.case: failure.reason for failure in suites["ApiVersions"].failures}
    assert reasons.keys() == {f"version {version} {shape}" for version in (1, 2, 3, 4) for shape in SHAPES}
    assert set(reasons.values()) == {"the response is in version 0"}


def test_what_a_broker_lists_beyond_this_release() -> None:
    advertised, *suites = ask(OddList())
    assert [(failure.case, failure.reason) for failure in advertised.failures] == [
        (f"key {ApiKey.FIND_COORDINATOR} versions 3 to 2", "the range is empty")
    ]
    assert [suite.name for suite in suites][:3] == ["Metadata", "ListGroups", "ApiVersions"]
    assert [suite.name for suite in suites if suite.failures] == []


def test_what_is_not_safe_is_listed_and_not_called() -> None:
    broker = OddList()
    broker.listed = [(key, *APIS[key].versions) for key in UNSAFE]
    suites = [suite for suite in ask(broker) if "not called" in suite.name]
    assert {suite.name for suite in suites} == {f"{APIS[key].name} (not called: it {UNSAFE[key]})" for key in UNSAFE}
    assert [suite.passed + len(suite.failures) for suite in suites] == [0] * len(UNSAFE)


def test_where_a_response_differs_when_it_is_encoded_again() -> None:
    """The number of tagged fields may take two bytes, but no encoder writes it that way."""
    api, connection = APIS[ApiKey.HEARTBEAT], ClientConnection()
    connection.request(HeartbeatRequest(), 4)
    data = bytes(4) + b"\0" + bytes(4) + bytes(2) + b"\x80\0"
    assert _check_response(api, 4, data, connection) == (
        "the re-encoded response differs from byte 11 onward: 00, but the broker sent 8000"
    )


def test_a_suite_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = itertools.count(1)
    made: list[int] = [0]

    class Slow(HangingSocket):
        def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
            made.append(next(connections))
            super().__init__(host, port, timeout_seconds)

    monkeypatch.setattr("kafkawire.conformance.broker_suite.FrameSocket", Slow)
    monkeypatch.setattr("kafkawire.conformance.broker_suite.monotonic_ms", lambda: 1500 * made[-1])
    suites = {suite.name: suite for suite in BrokerSuite("", 0, Names()).run()}
    assert (suites["ListGroups"].passed, suites["ListGroups"].seconds) == (12, 18.0)


def test_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        list(BrokerSuite("127.0.0.1", port, Names()).run())
