"""The broker's side of a connection, without the socket: requests in, responses out in the same order.

Requests can be pipelined; a connection whose `receive` raised an error must be closed. `connection.py` exports this
side along with the client's. Parts that are the same in all requests from a client, or in all responses to it, are
processed only once, because a broker handles tens of thousands of requests a second.

Source: Kafka protocol guide, "Network"; KIP-482 (headers).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry, Key
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES, frame_bytes, frame_prefix
from kafkawire.sdk.protocol.header_start import CORRELATION_ID_BYTES, HEADER_START
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.primitives import MAX_LENGTH
from kafkawire.sdk.protocol.programs import Program, program
from kafkawire.sdk.protocol.schema import Api, Buffer, Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.text_form import to_text, value_text
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["Request", "ServerConnection", "framed"]


class Request:
    """A request as received by a broker.

    Attributes:
        api: the requested API.
        version: the version of the request and of its response.
        asked_version: the version in the header: `version`, unless `version_error` is set.
        correlation_id: the id that the response must carry.
        client_id: the client's name, as given by the client.
        message: the request; with `version_error`, a request with defaults, because the body is not read, as in Kafka.
        version_error: whether the client sent ApiVersions in an unsupported version. If so, answer with the error
            UNSUPPORTED_VERSION and the supported versions; `version` is then the first version.
        size_bytes: the size of the frame, without its length.
    """

    __slots__ = (
        "_parts", "_queue", "api", "asked_version", "client_id", "correlation_id", "message", "size_bytes", "version",
        "version_error",
    )  # fmt: skip

    def __init__(
        self,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
        message: Any,
        size_bytes: int,
        asked_version: int | None = None,
    ) -> None:
        self.api = api
        self.version = version
        self.asked_version = version if asked_version is None else asked_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.version_error = asked_version is not None
        self.size_bytes = size_bytes
        self._parts: list[Buffer] | None = None
        self._queue: deque[Request] | None = None  # identifies the connection that received it

    @property
    def has_response(self) -> bool:
        """Whether the request has a response: every request has one, except Produce with `acks` 0."""
        return self.api.key != ApiKey.PRODUCE or getattr(self.message, "acks", None) != Acks.NONE

    def __repr__(self) -> str:
        client = "no client id" if self.client_id is None else f"client {value_text(self.client_id)}"
        unknown = " (unknown here)" if self.version_error else ""
        return (
            f"<{self.api.name} request, version {self.asked_version}{unknown}, correlation id {self.correlation_id}, "
            f"{client}: {to_text(self.message)}>"
        )


class _ServedForm(NamedTuple):
    """How to read and answer requests to one API in one version; looked up once per connection.

    Attributes:
        api: the API.
        version: the version of the request and its response.
        request_header: reads the header.
        request: reads the request.
        response_header_end: the part of the response header after the correlation id, which is the same in each
            response.
        response: the class of the response.
        response_bytes_max: the maximum size of a frame with the response.
    """

    api: Api
    version: int
    request_header: Program[RequestHeader]
    request: Program[Message]
    response_header_end: bytes
    response: type[Message]
    response_bytes_max: int


class ServerConnection:
    """The broker's side of a connection.

    Args:
        supported: the versions to serve, keyed by API key.
        apis: the known APIs; pass `ApiRegistry(APIS, …)` to add your own.
        response_bytes_max: size of the largest response for APIs other than Kafka's. Responses for Kafka's APIs may
            fill a frame, since the requests limit their size.

    Raises:
        LocalProtocolError: the registry lacks a served API or one of its versions.
    """

    def __init__(
        self,
        supported: Mapping[Key, VersionRange],
        apis: ApiRegistry = KAFKA_APIS,
        response_bytes_max: int = MAX_FRAME_BYTES,
    ) -> None:
        apis.check_served(supported)
        self._supported = cast("Mapping[int, VersionRange]", supported)
        self._apis = apis
        self._response_bytes_max = response_bytes_max
        self._pending: deque[Request] = deque()
        self._forms: dict[tuple[int, int], _ServedForm] = {}
        # The bytes after the correlation id in the last request: clients send the same bytes each time.
        self._header_end = b""
        self._header_form: _ServedForm | None = None
        self._client_id: str | None = None

    @property
    def pending(self) -> int:
        """The number of unanswered requests; a transport stops reading when there are too many."""
        return len(self._pending)

    def receive(self, frame: Buffer) -> Request:
        """Read the request in a frame.

        Raises:
            RemoteProtocolError: the API or version is not served, or the bytes cannot be decoded. The caller must then
                close the connection, as Kafka does.
        """
        if type(frame) is not bytearray:
            frame = frame_bytes(frame)
        if len(frame) < HEADER_START.size:
            raise RemoteProtocolError(
                f"the request has {len(frame)} bytes, but {HEADER_START.size} are needed for its header"
            )
        key, version, correlation_id = HEADER_START.unpack_from(frame)
        form = self._forms.get((key, version)) or self._form(key, version)
        if form is None:
            api = self._apis[ApiKey.API_VERSIONS]
            first = self._supported[ApiKey.API_VERSIONS].first
            request = Request(api, first, correlation_id, None, ApiVersionsRequest(), len(frame), asked_version=version)
        else:
            start = self._read_header(frame, form)
            message, _ = form.request.decode(frame, start)
            request = Request(form.api, version, correlation_id, self._client_id, message, len(frame))
        request._queue = self._pending
        self._pending.append(request)
        return request

    def respond(self, request: Request, message: Message | None) -> list[Buffer]:
        """Answer a request.

        Args:
            request: a request from `receive`; each must be answered once.
            message: the response; None if the request has none (see `Request.has_response`).

        Returns:
            The bytes to write now, in pieces for `writelines`: nothing while an earlier request is unanswered,
            otherwise this response and all later ones that were held back because of it.

        Raises:
            LocalProtocolError: the response is missing, belongs to another API, does not fit its version, or is too
                large; or another connection received the request.
        """
        if request._queue is not self._pending:
            raise LocalProtocolError(
                f"{request.api.name} request {request.correlation_id} was not received by this connection"
            )
        if request._parts is not None:
            raise LocalProtocolError(f"{request.api.name} request {request.correlation_id} was already answered")
        if message is None and request.has_response:
            raise LocalProtocolError(f"a {request.api.name} request needs a response, got None")
        request._parts = [] if message is None else self._frame(request, message)
        ready: list[Buffer] = []
        while self._pending and self._pending[0]._parts is not None:
            ready += self._pending.popleft()._parts or ()
        return ready

    def _form(self, key: int, version: int) -> _ServedForm | None:
        """Return how to read an API's version; None for an unknown version of ApiVersions."""
        if key not in self._supported:
            raise RemoteProtocolError(f"API key {key} is not served here")
        api = self._apis[key]
        supported = self._supported[key]
        if version not in supported:
            if key == ApiKey.API_VERSIONS:
                return None
            raise RemoteProtocolError(
                f"{api.name} version {version} is not served here; supported versions: {supported}"
            )
        response_header = program(ResponseHeader, api.response_header_version(version))
        form = self._forms[key, version] = _ServedForm(
            api,
            version,
            program(RequestHeader, api.request_header_version(version)),
            program(api.request, version),
            response_header.encode(ResponseHeader(0))[CORRELATION_ID_BYTES:],
            api.response,
            MAX_LENGTH if KAFKA_APIS.get(key) == api else self._response_bytes_max,
        )
        return form

    def _read_header(self, frame: Buffer, form: _ServedForm) -> int:
        """Store the client id, and return the start of the request."""
        begin = HEADER_START.size
        end = begin + len(self._header_end)
        if form is not self._header_form or frame[begin:end] != self._header_end:
            header, end = form.request_header.decode(frame)
            self._header_form, self._header_end = form, bytes(frame[begin:end])
            self._client_id = header.client_id
        return end

    def _frame(self, request: Request, message: Message) -> list[Buffer]:
        form = self._forms.get((request.api.key, request.version)) or self._form(request.api.key, request.version)
        assert form is not None, "a version that is answered is served"
        if type(message) is not form.response:
            raise LocalProtocolError(f"{type(message).__qualname__} is not a response to a {request.api.name} request")
        head = request.correlation_id.to_bytes(CORRELATION_ID_BYTES, "big", signed=True) + form.response_header_end
        parts = program(form.response, request.version).encode_parts(message)
        return framed(head, parts, form.response_bytes_max)


def framed(head: bytes, parts: Sequence[Buffer], bytes_max: int = MAX_LENGTH) -> list[Buffer]:
    """Return the frame for a header and the parts of a message, the first of which is a bytes object, possibly empty.

    Raises:
        LocalProtocolError: the frame is larger than `bytes_max`.
    """
    length = len(head) + sum(map(len, parts))
    if length > bytes_max:
        raise LocalProtocolError(f"the frame has {length} bytes, but at most {bytes_max} can be sent")
    return [frame_prefix(length) + head + parts[0], *parts[1:]]
