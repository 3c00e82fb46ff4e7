"""Send requests built from the schemas, and malformed frames, to a running broker, and check its reactions.

Every advertised API and version that is safe to call gets well-formed requests. The response must decode to its last
byte and re-encode to the same bytes; its content is not compared with Apache Kafka's yet. After that, malformed input
is sent. As in Apache Kafka, an ApiVersions request in an unknown version must get a response, and anything else must
close the connection.

Source: observed with Apache Kafka; KIP-511; `SocketServer` and `RequestContext` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kafkawire.conformance.report import Suite
from kafkawire.conformance.requests import UNSAFE, Names, requests
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.connection import ClientConnection, Sent
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES, frame
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket

__all__ = ["BrokerSuite"]

_CORRELATION_ID = 77

#: Number of requests in the pipelining case, enough to fill several reads, and few enough for any broker's limit.
_PIPELINED = 50


class BrokerSuite:
    """Check one broker.

    Args:
        host: name or address.
        port: TCP port of a plaintext listener.
        names: the topic and group to name in requests.
        timeout_seconds: time limit for one response.
    """

    def __init__(self, host: str, port: int, names: Names, timeout_seconds: float = 10.0) -> None:
        self._address = (host, port, timeout_seconds)
        self._names = names
        self._offered: dict[ApiKey, VersionRange] = {}

    def run(self) -> Iterator[Suite]:
        """Yield a suite for each API and one for each kind of malformed frame.

        Raises:
            OSError: the broker cannot be reached.
        """
        yield self._timed("ApiVersions, advertised ranges", self._advertised)
        for key, versions in sorted(self._offered.items()):
            if key in UNSAFE:
                yield Suite(f"{APIS[key].name} (not called: it {UNSAFE[key]})")
                continue
            yield self._timed(APIS[key].name, partial(self._api, key=key, versions=versions))
        yield self._timed("pipelined requests", self._pipelined)
        yield self._timed("unknown API and versions", self._unknown)
        yield self._timed("broken frames", self._broken)

    def _timed(self, name: str, check: Callable[[Suite], None]) -> Suite:
        suite = Suite(name)
        start_ms = monotonic_ms()
        check(suite)
        suite.seconds = (monotonic_ms() - start_ms) / 1000
        return suite

    def _socket(self) -> FrameSocket:
        return FrameSocket(*self._address)

    def _advertised(self, suite: Suite) -> None:
        connection = ClientConnection("kafkawire-conformance")
        with self._socket() as socket:
            while True:
                socket.send(*connection.handshake().parts)
                response = connection.receive(socket.receive()).message
                if isinstance(response, ApiVersionsResponse) and connection.negotiate(response):
                    break
        suite.add("handshake", None)
        for entry in response.api_keys:
            case = f"key {entry.api_key} versions {entry.min_version} to {entry.max_version}"
            known = entry.api_key in set(ApiKey)
            if known and ApiKey(entry.api_key) in APIS:
                both = APIS[ApiKey(entry.api_key)].versions & (entry.min_version, entry.max_version)
                if both:
                    self._offered[ApiKey(entry.api_key)] = both
            suite.add(case, None if entry.min_version <= entry.max_version else "the range is empty")

    def _api(self, suite: Suite, key: ApiKey, versions: VersionRange) -> None:
        api = APIS[key]
        for version in versions.numbers():
            for shape, message in requests(api, version, self._names):
                suite.add(f"version {version} {shape}", self._ask(api, version, message))

    def _ask(self, api: Api, version: int, message: Message) -> str | None:
        """Send one request on its own connection; return the problem with the response, if any."""
        connection = ClientConnection("kafkawire-conformance")
        try:
            with self._socket() as socket:
                socket.send(*connection.request(message, version).parts)
                return _check_response(api, version, socket.receive(), connection)
        except (KafkaWireError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    def _pipelined(self, suite: Suite) -> None:
        connection = ClientConnection("kafkawire-conformance", max_in_flight=_PIPELINED)
        keys = [key for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_GROUPS) if key in self._offered]
        sent = []
        for number in range(_PIPELINED):
            api = APIS[keys[number % len(keys)]]
            sent.append(self._request(connection, ApiKey(api.key)))
        with self._socket() as socket:
            socket.send(*(part for request in sent for part in request.parts))
            for request in sent:
                suite.add(f"request {request.correlation_id}", _in_order(socket, connection, request))

    def _unknown(self, suite: Suite) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        for version in (self._offered.get(ApiKey.API_VERSIONS, api.versions).last + 1, 99, 32767):
            suite.add(f"ApiVersions version {version}", self._unsupported_api_versions(version))
        for name, key, version in (
            ("unknown API key", 9999, 0),
            ("negative API key", -1, 0),
            ("removed API", ApiKey.LEADER_AND_ISR, 0),
            ("Metadata beyond its highest version", ApiKey.METADATA, self._offered[ApiKey.METADATA].last + 1),
            ("Metadata version 32767", ApiKey.METADATA, 32767),
            ("Metadata version -1", ApiKey.METADATA, -1),
        ):
            suite.add(name, self._closes(frame(_header(key, version, classic=True))))

    def _unsupported_api_versions(self, version: int) -> str | None:
        try:
            with self._socket() as socket:
                socket.send(frame(_header(ApiKey.API_VERSIONS, version, classic=False)))
                data = socket.receive()
        except (KafkaWireError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        lowest = APIS[ApiKey.API_VERSIONS].versions.first
        response, end = program(ApiVersionsResponse, lowest).decode(data, LENGTH_BYTES)
        if end != len(data):
            return f"{len(data) - end} bytes follow a response in version {lowest}"
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
            return f"the error code is {response.error_code}, but expected UNSUPPORTED_VERSION"
        ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        return None if ApiKey.API_VERSIONS in ranges else "the range of ApiVersions is missing"

    def _broken(self, suite: Suite) -> None:
        request = self._request(ClientConnection("kafkawire-conformance"), ApiKey.METADATA)
        whole = b"".join(request.parts)
        content = whole[LENGTH_BYTES:]
        for name, data in (
            ("negative length", b"\xff\xff\xff\xff" + content),
            ("length of -2^31", b"\x80\x00\x00\x00" + content),
            ("length beyond the maximum", (MAX_FRAME_BYTES + 1).to_bytes(LENGTH_BYTES, "big") + content),
            ("length of 2^31-1", b"\x7f\xff\xff\xff" + content),
            ("empty frame", frame(b"")),
            ("frame with half a header", frame(content[:5])),
            ("frame with a header cut in its client id", frame(content[:12])),
            ("frame cut in its body", frame(content[:-1])),
        ):
            suite.add(name, self._closes(data))
        suite.add("frame cut by the end of the connection", self._closes(whole[:-1], finish=True))
        suite.add("no bytes at all", self._closes(b"", finish=True))
        (_, message), *_ = requests(request.api, request.version, self._names)
        suite.add("the broker still responds", self._ask(request.api, request.version, message))

    def _request(self, connection: ClientConnection, key: ApiKey) -> Sent:
        """Return the `defaults` request of an API in the highest version that both sides know."""
        version = self._offered[key][1]
        (_, message), *_ = requests(APIS[key], version, self._names)
        return connection.request(message, version)

    def _closes(self, data: bytes, *, finish: bool = False) -> str | None:
        """Send bytes; return None if the broker closes the connection without a response, or else its reaction."""
        try:
            with self._socket() as socket:
                socket.send(data)
                if finish:
                    socket.finish_sending()
                response = socket.receive()
        except ConnectionEnded:
            return None
        except TimeoutError:
            return "the connection stays open, without a response"
        except (KafkaWireError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return f"the broker sent a response of {len(response)} bytes instead of closing the connection"


def _header(key: int, version: int, *, classic: bool) -> bytes:
    """Return a request header, built by hand because `ClientConnection` would refuse it."""
    header_version = RequestHeader.SCHEMA.versions[0 if classic else 1]
    return program(RequestHeader, header_version).encode(RequestHeader(key, version, _CORRELATION_ID, "conformance"))


def _in_order(socket: FrameSocket, connection: ClientConnection, request: Sent) -> str | None:
    try:
        received = connection.receive(socket.receive())
    except (KafkaWireError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return (
        None
        if received.correlation_id == request.correlation_id
        else f"the response is for request {received.correlation_id}"
    )


def _check_response(api: Api, version: int, data: bytes, connection: ClientConnection) -> str | None:
    """Return the problem with a response, if any. It must decode to its last byte and re-encode to the same bytes."""
    received = connection.receive(data)
    if received.unread_bytes:
        return f"{received.unread_bytes} of {len(data)} bytes follow the message"
    if received.version != version:
        return f"the response is in version {received.version}"
    header = program(ResponseHeader, api.response_header_version(version)).encode(
        ResponseHeader(received.correlation_id)
    )
    again = header + program(message_class(f"{api.name}Response"), version).encode(received.message)
    if again != data:
        pairs = enumerate(zip(again, data, strict=False))
        where = next((i for i, (ours, theirs) in pairs if ours != theirs), min(len(again), len(data)))
        ours, theirs = again[where : where + 8].hex(), data[where : where + 8].hex()
        return f"the re-encoded response differs from byte {where} onward: {ours}, but the broker sent {theirs}"
    return None
