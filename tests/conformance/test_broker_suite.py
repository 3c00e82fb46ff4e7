"""The online suite tells a broker that follows Kafka from one that does not.

Method: small hand-made brokers behind a real socket, each wrong in one way; the suites that must fail are named. A
broker that is right in all of it is checked in `tests/reference_broker` and, for Apache Kafka, in `tests/kafka`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkawire.conformance.broker_suite import BrokerSuite
from kafkawire.conformance.report import Suite
from kafkawire.conformance.requests import Names, message_class
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.connection import Request, ServerConnection, response_class
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

SUPPORTED = {key: APIS[key].versions for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_GROUPS)}


def good(request: Request) -> Message:
    """Answer with the defaults of the response, and ApiVersions as it must be."""
    if request.api.key != ApiKey.API_VERSIONS:
        return message_class(response_class(request.api))()
    entries = [ApiVersionsResponse.ApiVersion(key, *versions) for key, versions in SUPPORTED.items()]
    error = ErrorCode.UNSUPPORTED_VERSION if request.version_error else ErrorCode.NONE
    return ApiVersionsResponse(error_code=error, api_keys=entries)


class Broker:
    """Accept connections, one after the other, and answer in a way that a test chooses."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def spoil(self, frame: bytes, request: Request) -> bytes:
        """Return what is sent instead of `frame`; overridden by a broker that is wrong."""
        return frame

    def stop(self) -> None:
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
        except (KafkaWireError, OSError):
            return


@contextmanager
def running(broker: Broker) -> Iterator[Broker]:
    try:
        yield broker
    finally:
        broker.stop()


def failing(broker: Broker) -> list[str]:
    with running(broker):
        suites: list[Suite] = list(BrokerSuite("127.0.0.1", broker.port, Names(), timeout_seconds=0.5).run())
    assert sum(suite.passed for suite in suites) > 0
    return [suite.name for suite in suites if suite.failures]


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


def test_a_broker_that_is_right() -> None:
    assert failing(Broker()) == []


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


def test_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        list(BrokerSuite("127.0.0.1", port, Names()).run())
