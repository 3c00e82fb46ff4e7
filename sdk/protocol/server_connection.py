"""The broker's side of a connection, without the socket: requests in, responses out in their order.

`connection.py` offers it beside the client's side. What does not change between the requests of a client, or the
responses to it, is read and written once: a broker handles tens of thousands of them a second.

Source: Kafka protocol guide, "Network"; KIP-482 (headers).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.frames import frame_prefix
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.programs import Program, program
from kafkawire.sdk.protocol.schema import Api, Buffer, Message
from kafkawire.sdk.protocol.tables.apis import APIS, KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["HEADER_START", "Request", "ServerConnection", "framed", "response_class"]

#: What every request header begins with: API key, version, correlation id.
HEADER_START = Struct(">" + "".join(FIXED[field.kind].format for field in layout(RequestHeader, 1).fields[:3]))

_CORRELATION_ID_BYTES = 4


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


class _ServedForm(NamedTuple):
    """How the requests of one API are read and answered in one version: looked up once a connection.

    Attributes:
        api: what is asked.
        version: of the request and of its response.
        request_header: reads the header.
        request: reads the request.
        response_header_end: the response header after its correlation id, the same in each response.
    """

    api: Api
    version: int
    request_header: Program[RequestHeader]
    request: Program[Message]
    response_header_end: bytes


class ServerConnection:
    """The broker's side of a connection.

    Args:
        supported: the versions that are served, by API key.
    """

    def __init__(self, supported: Mapping[ApiKey, VersionRange]) -> None:
        self._supported = supported
        self._pending: deque[Request] = deque()
        self._forms: dict[tuple[int, int], _ServedForm] = {}
        # What followed the correlation id last time: clients say the same in each request.
        self._header_end = b""
        self._header_form: _ServedForm | None = None
        self._client_id: str | None = None

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
        if len(frame) < HEADER_START.size:
            raise RemoteProtocolError(f"request of {len(frame)} bytes, {HEADER_START.size} are needed for its header")
        key, version, correlation_id = HEADER_START.unpack_from(frame)
        form = self._forms.get((key, version)) or self._form(key, version)
        if form is None:
            api = APIS[ApiKey.API_VERSIONS]
            first = self._supported[ApiKey.API_VERSIONS].first
            request = Request(api, first, correlation_id, None, None, len(frame))
        else:
            start = self._read_header(frame, form)
            message, _ = form.request.decode(frame, start)
            request = Request(form.api, version, correlation_id, self._client_id, message, len(frame))
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
            LocalProtocolError: the response is of another API, does not fit its version, or is larger than 2 GiB.
        """
        if request._parts is not None:
            raise LocalProtocolError(f"{request.api.name} request {request.correlation_id} was answered already")
        request._parts = [] if message is None else self._frame(request, message)
        ready: list[Buffer] = []
        while self._pending and self._pending[0]._parts is not None:
            ready += self._pending.popleft()._parts or ()
        return ready

    def _form(self, key: int, version: int) -> _ServedForm | None:
        """Return how a version of an API is read; None for one of ApiVersions that is unknown here."""
        if key not in self._supported:
            raise RemoteProtocolError(f"API key {key} is not served here")
        api = KNOWN_APIS[ApiKey(key)]
        supported = self._supported[ApiKey(key)]
        if version not in supported:
            if key == ApiKey.API_VERSIONS:
                return None
            raise RemoteProtocolError(f"{api.name} version {version} is not served here, {supported} are")
        response_header = program(ResponseHeader, api.response_header_version(version))
        form = self._forms[key, version] = _ServedForm(
            api,
            version,
            program(RequestHeader, api.request_header_version(version)),
            program(f"{api.name}Request", version),
            response_header.encode(ResponseHeader(0))[_CORRELATION_ID_BYTES:],
        )
        return form

    def _read_header(self, frame: Buffer, form: _ServedForm) -> int:
        """Note the client id, and return where the request begins."""
        begin = HEADER_START.size
        end = begin + len(self._header_end)
        if form is not self._header_form or frame[begin:end] != self._header_end:
            header, end = form.request_header.decode(frame)
            self._header_form, self._header_end = form, bytes(frame[begin:end])
            self._client_id = header.client_id
        return end

    def _frame(self, request: Request, message: Message) -> list[Buffer]:
        schema = message.SCHEMA
        if schema.key != request.api.key or schema.kind != "response":
            raise LocalProtocolError(f"{schema.name} does not answer a request of {request.api.name}")
        form = self._forms.get((request.api.key, request.version)) or self._form(request.api.key, request.version)
        assert form is not None, "a version that is answered is served"
        head = request.correlation_id.to_bytes(_CORRELATION_ID_BYTES, "big", signed=True) + form.response_header_end
        return framed(head, program(type(message), request.version).encode_parts(message))


def response_class(api: Api) -> str:
    """Return the name of the response of an API."""
    return f"{api.name}Response"


def framed(head: bytes, parts: Sequence[Buffer]) -> list[Buffer]:
    """Return the frame of a header and the parts of a message, of which the first is bytes, perhaps none."""
    length = len(head) + sum(map(len, parts))
    return [frame_prefix(length) + head + parts[0], *parts[1:]]
