"""Decode the traffic between a client and a broker as a third party: in a proxy, or from a capture.

`read_request` and `observe` read one frame each. `ObservedConnection` follows a whole connection: it matches responses
to requests and knows which requests have none. For a frame that it cannot read, it never raises an error but returns an
`Unread` with the reason.

Source: Kafka protocol guide, "Network", "SASL Authentication Sequence"; KIP-511 (unknown versions of ApiVersions).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError, KafkaWireError, RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.connection import (
    MAX_IN_FLIGHT,
    Received,
    Request,
    Sent,
    checked_in_flight,
    opens_with_unsupported_version,
)
from kafkawire.sdk.protocol.frames import frame_bytes
from kafkawire.sdk.protocol.header_start import CORRELATION_ID_BYTES, HEADER_START, correlation_id_of
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Api, Buffer
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ObservedConnection", "Unread", "observe", "read_request"]

#: The reason why a frame was not read is truncated to this many characters, because it may quote the frame.
_REASON_CHARACTERS_MAX = 200


class Unread(NamedTuple):
    """A frame that was not decoded.

    Attributes:
        what: a description, such as `response` or `SASL token of the client`.
        size_bytes: size of the frame, without its length.
        reason: why it was not decoded; empty if there is nothing to decode.
        api_key: key of the API; None if unknown.
        version: version of the request; None if unknown.
        correlation_id: id of the request; None if unknown.
        name: name of the API, or its key if the API is unknown here; empty if the key is unknown.
    """

    what: str
    size_bytes: int
    reason: str = ""
    api_key: int | None = None
    version: int | None = None
    correlation_id: int | None = None
    name: str = ""

    def __repr__(self) -> str:
        told = [f"{self.name} {self.what}".lstrip()]
        if self.version is not None:
            told.append(f"version {self.version}")
        if self.correlation_id is not None:
            told.append(f"correlation id {self.correlation_id}")
        told.append(f"{self.size_bytes} bytes")
        reason = f": {self.reason[:_REASON_CHARACTERS_MAX]}" if self.reason else ""
        return f"<{', '.join(told)}{reason}>"


class _Waiting(NamedTuple):
    """A request awaiting its response, reduced to what is needed to read that response; no frame is kept.

    Attributes:
        correlation_id: id of the request; None for a SASL token, whose response has none.
        asked: the request for `observe`; None if the request could not be read.
        unread: what is known about a request that could not be read.
    """

    correlation_id: int | None
    asked: Request | None
    unread: Unread | None = None


class ObservedConnection:
    """Follow one connection between a client and a broker.

    Pass the frames from each side in stream order, and each request before its response; `FrameBuffer` splits a stream
    into frames. Observation may start in the middle of a connection: responses to requests that were not seen are
    `Unread`.

    Args:
        max_in_flight: the maximum number of requests remembered until their responses arrive; beyond that, the oldest
            are forgotten.
        apis: the APIs to decode, keyed by API key; pass `ApiRegistry(APIS, …)` to add custom APIs.

    Raises:
        LocalProtocolError: `max_in_flight` is not an integer of at least 1.
    """

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT, apis: Mapping[int, Api] = KAFKA_APIS) -> None:
        self._max_in_flight = checked_in_flight(max_in_flight)
        self._apis = apis
        self._waiting: deque[_Waiting] = deque()
        self._tokens = False
        self._unanswered = 0

    @property
    def in_flight(self) -> int:
        """The number of requests whose responses have not arrived yet."""
        return len(self._waiting)

    @property
    def unanswered(self) -> int:
        """The number of requests dropped because later ones were answered first or too many were pending."""
        return self._unanswered

    def expects(self, correlation_id: int) -> bool:
        """Return whether a request with this correlation id is awaiting a response."""
        return any(waiting.correlation_id == correlation_id for waiting in self._waiting)

    def receive_request(self, frame: Buffer) -> Request | Unread:
        """Read a frame from the client.

        Args:
            frame: the frame without its length.

        Returns:
            The request; `Unread` for a SASL token, an unknown API or version, or any other frame that cannot be read.
        """
        frame = frame_bytes(frame)
        try:
            request, unread_bytes = _read_request(frame, self._apis)
        except KafkaWireError as error:
            if self._tokens:
                return self._receive_token(frame)
            return self._receive_unknown(frame, error)
        if self._tokens and unread_bytes:
            return self._receive_token(frame)
        self._tokens = False
        if request.has_response:
            self._expect(_Waiting(request.correlation_id, _without_body(request)))
        return request

    def receive_response(self, frame: Buffer) -> Received | Unread:
        """Read a frame from the broker.

        Args:
            frame: the frame without its length.

        Returns:
            The response; `Unread` for a SASL token, for the response to a request that was not seen or not read, and
            for a response that cannot be decoded.
        """
        frame = frame_bytes(frame)
        if self._waiting and self._waiting[0].correlation_id is None:
            self._waiting.popleft()
            return Unread("SASL token of the broker", len(frame))
        if len(frame) < CORRELATION_ID_BYTES:
            return Unread("response", len(frame), f"{CORRELATION_ID_BYTES} bytes are needed for its correlation id")
        correlation_id = correlation_id_of(frame)
        found = self._take(correlation_id)
        if found is None:
            return Unread("response", len(frame), "its request was not seen", correlation_id=correlation_id)
        if found.asked is None:
            unread = found.unread
            assert unread is not None, "the header identifies the frame"
            reason = "its request could not be decoded"
            return unread._replace(what="response", size_bytes=len(frame), reason=reason)
        asked = found.asked
        try:
            received = observe(asked, frame)
        except KafkaWireError as error:
            told = asked.api.key, asked.asked_version, correlation_id, asked.api.name
            return Unread("response", len(frame), str(error), *told)
        self._tokens = self._tokens or _begins_tokens(received)
        return received

    def _take(self, correlation_id: int) -> _Waiting | None:
        """Return the request that a response answers; drop earlier requests, because brokers respond in order."""
        for number, waiting in enumerate(self._waiting):
            if waiting.correlation_id == correlation_id:
                for _ in range(number + 1):
                    self._waiting.popleft()
                self._unanswered += number
                return waiting
        return None

    def _expect(self, waiting: _Waiting) -> None:
        if len(self._waiting) >= self._max_in_flight:
            self._waiting.popleft()
            self._unanswered += 1
        self._waiting.append(waiting)

    def _receive_token(self, frame: Buffer) -> Unread:
        self._expect(_Waiting(None, None))
        return Unread("SASL token of the client", len(frame))

    def _receive_unknown(self, frame: Buffer, error: KafkaWireError) -> Unread:
        if len(frame) < HEADER_START.size:
            return Unread("request", len(frame), str(error))
        key, version, correlation_id = HEADER_START.unpack_from(frame)
        name = self._apis[key].name if key in self._apis else f"API key {key}"
        unread = Unread("request", len(frame), str(error), key, version, correlation_id, name)
        self._expect(_Waiting(correlation_id, None, unread))
        return unread


def _without_body(request: Request) -> Request:
    """Return a request reduced to what `observe` needs; its body can be as large as a frame."""
    asked_version = request.asked_version if request.version_error else None
    return Request(request.api, request.version, request.correlation_id, None, None, request.size_bytes, asked_version)


def read_request(frame: Buffer, apis: Mapping[int, Api] = KAFKA_APIS) -> Request:
    """Read a request.

    Args:
        frame: header and body, without the length.
        apis: the known APIs, keyed by API key; pass `ApiRegistry(APIS, …)` to add custom APIs.

    Returns:
        The request; `version_error` is set for ApiVersions in an unknown version, whose body is not read.

    Raises:
        RemoteProtocolError: the API is unknown here, or the bytes cannot be decoded.
        UnsupportedVersion: the version is unknown here.
    """
    return _read_request(frame_bytes(frame), apis)[0]


def _read_request(frame: Buffer, apis: Mapping[int, Api]) -> tuple[Request, int]:
    """Return the request and the number of bytes that follow it."""
    if len(frame) < HEADER_START.size:
        raise RemoteProtocolError(
            f"the request has {len(frame)} bytes, but {HEADER_START.size} are needed for its header"
        )
    key, version, correlation_id = HEADER_START.unpack_from(frame)
    api = apis.get(key)
    if api is None:
        raise RemoteProtocolError(f"no API has the key {key}")
    if version not in api.known_versions:
        if api.key != ApiKey.API_VERSIONS:
            raise UnsupportedVersion(
                f"{api.name} has no version {version}; the known versions are {api.known_versions}"
            )
        client_id = _client_id(frame)
        first = api.versions.first
        return Request(api, first, correlation_id, client_id, ApiVersionsRequest(), len(frame), version), 0
    header, start = program(RequestHeader, api.request_header_version(version)).decode(frame)
    message, end = program(api.request, version).decode(frame, start)
    return Request(api, version, correlation_id, header.client_id, message, len(frame)), len(frame) - end


def _client_id(frame: Buffer) -> str | None:
    """Return the client id, which has had the same position in every header so far; None if there is none."""
    try:
        return program(RequestHeader, RequestHeader.SCHEMA.versions.first).decode(frame)[0].client_id
    except DecodeError:
        return None


def observe(request: Request | Sent, frame: Buffer) -> Received:
    """Read the response to an observed request.

    Args:
        request: from `read_request`, a `ServerConnection`, or a `ClientConnection` whose responses are read elsewhere.
        frame: header and body, without the length.

    Returns:
        The response; its `unread_bytes` is the number of bytes after the message in the frame.

    Raises:
        RemoteProtocolError: the response belongs to another request, or cannot be decoded.
        UnsupportedVersion: the request was ApiVersions in a version that the broker knows and this release does not.
    """
    frame = frame_bytes(frame)
    api, version = request.api, request.version
    header, start = program(ResponseHeader, api.response_header_version(version)).decode(frame)
    if header.correlation_id != request.correlation_id:
        raise RemoteProtocolError(
            f"the response has correlation id {header.correlation_id}, "
            f"but the {api.name} request has {request.correlation_id}"
        )
    if api.key == ApiKey.API_VERSIONS:
        if opens_with_unsupported_version(frame, start):
            version = api.versions.first  # every client can read it
        elif isinstance(request, Request) and request.version_error:
            raise UnsupportedVersion(
                f"{api.name} has no version {request.asked_version}; the known versions are {api.versions}"
            )
    message, end = program(api.response, version).decode(frame, start)
    return Received(request.correlation_id, api, version, message, len(frame) - end)


def _begins_tokens(received: Received) -> bool:
    """Return whether the next frames have no headers: SASL tokens after a handshake in the first version."""
    api = received.api
    return (
        api.key == ApiKey.SASL_HANDSHAKE
        and received.version == api.versions.first
        and getattr(received.message, "error_code", None) == ErrorCode.NONE
    )
