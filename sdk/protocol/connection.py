"""One connection to a broker, or to a client, without the socket: frames in, messages out, and back.

`ClientConnection` numbers requests, pairs responses with them and negotiates versions; `ServerConnection` reads
requests and lets responses out in the order of their requests. Both pipeline. Frames are cut by `frames.py` or by a
transport; a connection that raised `RemoteProtocolError` is to be closed.

Source: Kafka protocol guide, "Network" and "Retrieving supported API versions"; KIP-511 (ApiVersions), KIP-482
(headers).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.frames import frame_prefix
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Api, Buffer, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.version import __version__

__all__ = [
    "MAX_IN_FLIGHT",
    "ClientConnection",
    "Received",
    "Request",
    "Sent",
    "ServerConnection",
    "response_class",
]

#: Requests that may wait for their response on one connection. Kafka's clients use 5 for producing and few for the
#: rest; the bound only keeps a runaway caller from filling the memory.
MAX_IN_FLIGHT = 1000

#: Correlation ids are int32 and wrap to 0.
_CORRELATION_IDS = 2**31

#: What every request header begins with: API key, version, correlation id.
_HEADER_START = Struct(">" + "".join(FIXED[field.kind].format for field in layout(RequestHeader, 1).fields[:3]))

_ERROR_CODE = Struct(">h")


class Sent(NamedTuple):
    """A request that is ready to be written.

    Attributes:
        correlation_id: what its response will carry.
        api: what was asked.
        version: of the request and of its response.
        parts: the frame, length included, in pieces for `writelines`; `records` values are in it as they were given.
    """

    correlation_id: int
    api: Api
    version: int
    parts: list[Buffer]


class Received(NamedTuple):
    """A response and the request that it answers.

    Attributes:
        correlation_id: of the request.
        api: what was asked.
        version: in which the response was written.
        message: the response.
        unread_bytes: what was left of the frame after the message; Kafka's own clients ignore it.
    """

    correlation_id: int
    api: Api
    version: int
    message: Message
    unread_bytes: int


class ClientConnection:
    """The client's side of a connection.

    Args:
        client_id: the name that the broker uses in logs and for quotas; None for none.
        max_in_flight: requests that may wait for their response, see `MAX_IN_FLIGHT`.
    """

    def __init__(self, client_id: str | None = "kafkawire", max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self._client_id = client_id
        self._max_in_flight = max_in_flight
        self._waiting: deque[tuple[int, Api, int]] = deque()
        self._next_id = 0
        self._versions: dict[int, VersionRange] | None = None
        self._api_versions_version = APIS[ApiKey.API_VERSIONS].versions.last

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their response."""
        return len(self._waiting)

    def handshake(self) -> Sent:
        """Return the ApiVersions request that opens a connection, in the highest version that may still work."""
        request = ApiVersionsRequest(client_software_name="kafkawire", client_software_version=__version__)
        return self.request(request, self._api_versions_version)

    def negotiate(self, response: ApiVersionsResponse) -> bool:
        """Learn which versions the broker speaks from its answer to `handshake`.

        Returns:
            True when done; False when the broker does not know the version that was asked in: send `handshake` again.

        Raises:
            RemoteProtocolError: the broker refuses for another reason, or refuses the lowest version too.
        """
        ours = APIS[ApiKey.API_VERSIONS].versions
        offered = {entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self._api_versions_version > ours.first:
            theirs = offered.get(ApiKey.API_VERSIONS, VersionRange(ours.first, ours.first))
            self._api_versions_version = max(ours.first, min(theirs.last, self._api_versions_version - 1))
            return False
        if response.error_code != ErrorCode.NONE:
            raise RemoteProtocolError(f"ApiVersions was refused with error code {response.error_code}")
        self._versions = offered
        return True

    def version_for(self, api: Api) -> int:
        """Return the highest version that both sides know; the highest stable one of ours before negotiation.

        Raises:
            UnsupportedVersion: there is none.
        """
        ours = api.stable_versions
        if self._versions is None:
            return ours.last
        if api.key not in self._versions:
            raise UnsupportedVersion(f"{api.name}: the broker does not offer it")
        theirs = self._versions[api.key]
        if not ours & theirs:
            raise UnsupportedVersion(f"{api.name}: versions {ours} are known here, the broker offers {theirs}")
        return (ours & theirs).last

    def offers(self, api: Api) -> bool:
        """Return whether a version is known to both sides; False before negotiation."""
        theirs = (self._versions or {}).get(api.key)
        return theirs is not None and bool(api.versions & theirs)

    def request(self, message: Message, version: int | None = None, *, expect_response: bool = True) -> Sent:
        """Write a request.

        Args:
            message: a request of any API.
            version: None for the highest that both sides know.
            expect_response: False for the one request that has none, Produce with `acks` 0.

        Raises:
            LocalProtocolError: not a request, a value that the version cannot carry, a frame of more than 2 GiB, or too
                many requests in flight.
        """
        schema = message.SCHEMA
        if schema.kind != "request" or schema.key is None:
            raise LocalProtocolError(f"{schema.name} is a {schema.kind}, a request is needed")
        if len(self._waiting) >= self._max_in_flight:
            raise LocalProtocolError(f"{len(self._waiting)} requests in flight, at most {self._max_in_flight} allowed")
        api = APIS[ApiKey(schema.key)]
        version = self.version_for(api) if version is None else version
        correlation_id = self._next_id
        header = RequestHeader(api.key, version, correlation_id, self._client_id)
        head = program(RequestHeader, api.request_header_version(version)).encode(header)
        parts = _framed(head, program(type(message), version).encode_parts(message))
        self._next_id = (correlation_id + 1) % _CORRELATION_IDS
        if expect_response:
            self._waiting.append((correlation_id, api, version))
        return Sent(correlation_id, api, version, parts)

    def receive(self, frame: Buffer) -> Received:
        """Read the response in a frame.

        Raises:
            RemoteProtocolError: it answers no request, answers out of order, or cannot be decoded.
        """
        if not self._waiting:
            raise RemoteProtocolError(f"frame of {len(frame)} bytes, but no request waits for a response")
        correlation_id, api, version = self._waiting.popleft()
        header, start = program(ResponseHeader, api.response_header_version(version)).decode(frame)
        if header.correlation_id != correlation_id:
            raise RemoteProtocolError(
                f"response with correlation id {header.correlation_id}, {correlation_id} ({api.name}) is next"
            )
        if api.key == ApiKey.API_VERSIONS and _opens_with_unsupported_version(frame, start):
            # The broker does not know the version of the request and answers in the one that every client reads.
            version = api.versions.first
        message, end = program(response_class(api), version).decode(frame, start)
        return Received(correlation_id, api, version, message, len(frame) - end)


class Request:
    """A request as a broker sees it.

    Attributes:
        api: what is asked.
        version: of the request; its response is written in the same one.
        correlation_id: what the response will carry.
        client_id: what the client calls itself.
        message: the request; None where `version_error` is set.
        version_error: the client asks ApiVersions in a version that is not supported here: answer with the error
            UNSUPPORTED_VERSION and the supported versions.
        size_bytes: of the frame, without its length.
    """

    __slots__ = ("_parts", "api", "client_id", "correlation_id", "message", "size_bytes", "version", "version_error")

    def __init__(
        self, api: Api, version: int, correlation_id: int, client_id: str | None, message: Any, size_bytes: int
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.version_error = message is None
        self.size_bytes = size_bytes
        self._parts: list[Buffer] | None = None


class ServerConnection:
    """The broker's side of a connection.

    Args:
        supported: the versions that are served, by API key.
    """

    def __init__(self, supported: Mapping[ApiKey, VersionRange]) -> None:
        self._supported = supported
        self._pending: deque[Request] = deque()

    @property
    def pending(self) -> int:
        """The number of requests without a response yet; a transport stops reading at its limit."""
        return len(self._pending)

    def receive(self, frame: Buffer) -> Request:
        """Read the request in a frame.

        Raises:
            RemoteProtocolError: an API or version that is not served, or bytes that cannot be decoded. Kafka closes the
                connection then, and so must the caller.
        """
        if len(frame) < _HEADER_START.size:
            raise RemoteProtocolError(f"request of {len(frame)} bytes, {_HEADER_START.size} are needed for its header")
        key, version, correlation_id = _HEADER_START.unpack_from(frame)
        if key not in self._supported:
            raise RemoteProtocolError(f"API key {key} is not served here")
        api = APIS[ApiKey(key)]
        supported = self._supported[ApiKey(key)]
        if version in supported:
            header, start = program(RequestHeader, api.request_header_version(version)).decode(frame)
            message, _ = program(f"{api.name}Request", version).decode(frame, start)
            request = Request(api, version, correlation_id, header.client_id, message, len(frame))
        elif key == ApiKey.API_VERSIONS:
            request = Request(api, supported.first, correlation_id, None, None, len(frame))
        else:
            raise RemoteProtocolError(f"{api.name} version {version} is not served here, {supported} are")
        self._pending.append(request)
        return request

    def respond(self, request: Request, message: Message | None) -> list[Buffer]:
        """Give the response to a request.

        Args:
            request: from `receive`, answered once.
            message: the response; None if the request has none (Produce with `acks` 0).

        Returns:
            What may be written now, in pieces for `writelines`: nothing while an earlier request waits, else this
            response and all later ones that were held back by it.

        Raises:
            LocalProtocolError: the response does not belong to the request, cannot be written in its version, or is
                larger than 2 GiB.
        """
        if request._parts is not None:
            raise LocalProtocolError(f"{request.api.name} request {request.correlation_id} was answered already")
        request._parts = [] if message is None else self._frame(request, message)
        ready: list[Buffer] = []
        while self._pending and self._pending[0]._parts is not None:
            ready += self._pending.popleft()._parts or ()
        return ready

    def _frame(self, request: Request, message: Message) -> list[Buffer]:
        if message.SCHEMA.key != request.api.key or message.SCHEMA.kind != "response":
            raise LocalProtocolError(f"{message.SCHEMA.name} does not answer a request of {request.api.name}")
        header_version = request.api.response_header_version(request.version)
        head = program(ResponseHeader, header_version).encode(ResponseHeader(request.correlation_id))
        return _framed(head, program(type(message), request.version).encode_parts(message))


def response_class(api: Api) -> str:
    """Return the name of the response of an API."""
    return f"{api.name}Response"


def _framed(head: bytes, parts: Sequence[Buffer]) -> list[Buffer]:
    """Return the frame of a header and the parts of a message, of which the first is bytes, perhaps none."""
    length = len(head) + sum(map(len, parts))
    return [frame_prefix(length) + head + parts[0], *parts[1:]]


def _opens_with_unsupported_version(frame: Buffer, start: int) -> bool:
    """Return whether the error code that opens an ApiVersions response is UNSUPPORTED_VERSION."""
    if len(frame) - start < _ERROR_CODE.size:
        return False
    return bool(_ERROR_CODE.unpack_from(frame, start)[0] == ErrorCode.UNSUPPORTED_VERSION)
