"""The client's side of a connection, without the socket: requests out, responses in.

`ClientConnection` numbers requests, matches responses to them, and passes the gate (`gate.py`: versions, login).
Requests are pipelined. `frames.py` or a transport splits the stream into frames; a connection whose `receive` raised an
error must be closed. The broker's side is in `server_connection.py`; this module exports it too.

Source: Kafka protocol guide, "Network"; KIP-482 (headers).
"""

from collections import deque
from struct import Struct
from typing import NamedTuple

from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.protocol.frames import frame_bytes
from kafkawire.sdk.protocol.gate import ConnectionState, Gate
from kafkawire.sdk.protocol.header_start import HEADER_START
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.negotiation import Negotiation
from kafkawire.sdk.protocol.programs import Program, program
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.schema import Api, Buffer, Message
from kafkawire.sdk.protocol.server_connection import Request, ServerConnection, framed
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.text_form import to_text
from kafkawire.sdk.protocol.values import quoted

__all__ = [
    "GATE_FRAME_BYTES_MAX",
    "MAX_IN_FLIGHT",
    "ClientConnection",
    "Received",
    "Request",
    "Sent",
    "ServerConnection",
    "checked_in_flight",
    "opens_with_unsupported_version",
]

#: Maximum number of requests awaiting a response on one connection, including requests that are held back. Kafka's
#: clients allow 5 when producing and just a few otherwise; this limit only keeps a runaway caller from filling memory.
MAX_IN_FLIGHT = 1000

#: Size of the largest frame accepted before the broker has been authenticated: enough for the largest challenge.
GATE_FRAME_BYTES_MAX = 1024 * 1024

#: Correlation ids are int32 and wrap around to 0.
_CORRELATION_IDS = 2**31

_ERROR_CODE = Struct(">h")


class Sent(NamedTuple):
    """A request that is ready to be written.

    Attributes:
        correlation_id: the id that its response will carry.
        api: the API of the request.
        version: the version of the request and of its response.
        parts: the frame, including its length, in pieces for `writelines`; `records` values are included as they were
            passed. Empty if the request is held back, in which case `take_outgoing` will return it.
    """

    correlation_id: int
    api: Api
    version: int
    parts: list[Buffer]

    def __repr__(self) -> str:
        size_bytes = sum(map(len, self.parts))
        return (
            f"<{self.api.name} request, version {self.version}, correlation id {self.correlation_id}: "
            f"{size_bytes} bytes to be sent>"
        )


class Received(NamedTuple):
    """A response and the request that it answers.

    Attributes:
        correlation_id: the id of the request.
        api: the API of the request.
        version: the version in which the response was written.
        message: the response.
        unread_bytes: number of bytes left in the frame after the message; Kafka's own clients ignore such bytes.
    """

    correlation_id: int
    api: Api
    version: int
    message: Message
    unread_bytes: int

    def __repr__(self) -> str:
        unread = f", {self.unread_bytes} bytes not read" if self.unread_bytes else ""
        return (
            f"<{self.api.name} response, version {self.version}, correlation id {self.correlation_id}{unread}: "
            f"{to_text(self.message)}>"
        )


class _Form(NamedTuple):
    """How requests and responses of one API are encoded in one version; looked up once per connection.

    Attributes:
        api: the API.
        version: the version of the request and of its response.
        header_end: the part of the request header after the correlation id, which is the same in each request.
        request: writes the request.
        response_header: reads the header of the response.
        response: reads the response.
    """

    api: Api
    version: int
    header_end: bytes
    request: Program[Message]
    response_header: Program[ResponseHeader]
    response: Program[Message]


def checked_in_flight(max_in_flight: int) -> int:
    """Check the limit on requests awaiting a response, and return it.

    Raises:
        LocalProtocolError: the limit is not an integer of at least 1.
    """
    if not isinstance(max_in_flight, int) or max_in_flight < 1:
        raise LocalProtocolError(f"max_in_flight must be an integer of at least 1, got {quoted(max_in_flight)}")
    return max_in_flight


class ClientConnection:
    """The client's side of a connection.

    A driver reports the state of the network (`enter`), opens the gate (`start`), and calls `log_in` when the
    connection `wants_login` and again at `reauthenticate_at_ms`. After each of these calls, and after `receive`, it
    immediately writes what `take_outgoing` returns. Programs that send individual requests by hand can ignore the gate.

    Args:
        client_id: the name that the broker uses in logs and for quotas; None for none.
        max_in_flight: the maximum number of requests awaiting a response; see `MAX_IN_FLIGHT`.
        authenticates: whether the connection logs in.
        apis: the APIs that can be called; pass `ApiRegistry(APIS, …)` to add custom APIs.

    Raises:
        LocalProtocolError: `max_in_flight` is not an integer of at least 1.
    """

    def __init__(
        self,
        client_id: str | None = "kafkawire",
        max_in_flight: int = MAX_IN_FLIGHT,
        *,
        authenticates: bool = False,
        apis: ApiRegistry = KAFKA_APIS,
    ) -> None:
        self._client_id = client_id
        self._max_in_flight = checked_in_flight(max_in_flight)
        self._apis = apis
        self._forms: dict[tuple[type[Message], int], _Form] = {}
        self._waiting: deque[tuple[int, _Form, bool]] = deque()
        self._next_id = 0
        self._negotiation = Negotiation()
        self._gate = Gate(self._negotiation, authenticates=authenticates)
        self._gate_waits = 0
        self._outgoing: list[Buffer] = []
        self._held: deque[tuple[Sent, _Form, bool]] = deque()

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""
        return self._gate.state

    @property
    def in_flight(self) -> int:
        """The number of requests that await a response or are held back, not counting the gate's own."""
        return len(self._waiting) + len(self._held) - self._gate_waits

    @property
    def answers_others_first(self) -> bool:
        """Whether requests sent before the login are still unanswered."""
        return len(self._waiting) > self._gate_waits > 0

    @property
    def wants_login(self) -> bool:
        """Whether the connection is waiting for its first `log_in`."""
        return self._gate.wants_login

    @property
    def wants_credentials(self) -> bool:
        """Whether the connection is waiting for `authenticate`."""
        return self._gate.wants_credentials

    @property
    def reauthenticate_at_ms(self) -> float:
        """The time at which to call `log_in` again, on the clock passed to `log_in`; infinite if never."""
        return self._gate.reauthenticate_at_ms

    @property
    def session_ends_ms(self) -> float:
        """The time at which the broker stops accepting requests unless the client logs in again; infinite if never."""
        return self._gate.session_ends_ms

    def enter(self, state: ConnectionState) -> None:
        """Set the state of the network: RESOLVING, CONNECTING or TLS.

        Raises:
            LocalProtocolError: the state is not one of these, or the gate has already been opened.
        """
        self._gate.report(state)

    def start(self) -> None:
        """Open the gate once the network has connected.

        Raises:
            LocalProtocolError: the gate was opened before.
        """
        self._ask(self._gate.start())

    def log_in(self, authenticator: Authenticator, now_ms: int, fraction: float, *, asks_again: bool = False) -> None:
        """Start the login; requests are held back until the broker accepts the login. See `Gate.log_in`."""
        self._ask(self._gate.log_in(authenticator, now_ms, fraction, asks_again=asks_again))

    def authenticate(self, authenticator: Authenticator, now_ms: int) -> None:
        """Continue the login with new credentials, or with those given to `log_in`. See `Gate.authenticate`."""
        self._ask(self._gate.authenticate(authenticator, now_ms))

    def take_outgoing(self) -> list[Buffer]:
        """Return the bytes to write now, before any later request, in pieces for `writelines`."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def handshake(self) -> Sent:
        """Return the ApiVersions request that opens a connection without a gate, in the version to try first."""
        return self.request(self._negotiation.request(), self._negotiation.request_version)

    def negotiate(self, response: ApiVersionsResponse) -> bool:
        """Learn which versions the broker supports from its response to `handshake`; see `Negotiation.receive`."""
        return self._negotiation.receive(response)

    def version_for(self, api: Api) -> int:
        """Return the highest version that both sides know; before negotiation, the highest stable version known.

        Raises:
            UnsupportedVersion: there is no common version.
        """
        return self._negotiation.version_for(api)

    def offers(self, api: Api) -> bool:
        """Return whether both sides know a common version; False before negotiation."""
        return self._negotiation.offers(api)

    def feature_level(self, name: str) -> int:
        """Return the finalized level of a cluster feature; 0 if it is not finalized."""
        return self._negotiation.features.get(name, 0)

    def request(
        self,
        message: Message,
        version: int | None = None,
        *,
        expect_response: bool = True,
        now_ms: int = 0,
    ) -> Sent:
        """Write a request.

        Args:
            message: a request to an API in the registry.
            version: the version; None for the highest that both sides know.
            expect_response: False for the only request that gets no response: Produce with `acks` 0.
            now_ms: the current time on the clock used for `log_in`; requests are held back once the session has ended.
                Needed only if the broker limits sessions.

        Raises:
            LocalProtocolError: the message is not a request of the registry, a value cannot be encoded in the version,
                the frame is larger than 2 GiB, too many requests are in flight, or the first login is not complete.
        """
        in_flight = len(self._waiting) + len(self._held) - self._gate_waits
        if in_flight >= self._max_in_flight:
            raise LocalProtocolError(
                f"{in_flight} requests are in flight, but at most {self._max_in_flight} are allowed"
            )
        gate = self._gate
        is_shut = gate.state is not ConnectionState.READY and gate.is_shut
        if is_shut and gate.state is not ConnectionState.REAUTHENTICATION:
            raise LocalProtocolError(
                f"no request can be sent in the state {gate.state.value!r}, since the connection is not ready"
            )
        sent, form = self._framed_request(message, version)
        if is_shut or now_ms >= gate.session_ends_ms:
            self._held.append((sent, form, expect_response))
            return sent._replace(parts=[])
        if expect_response:
            self._waiting.append((sent.correlation_id, form, False))
        return sent

    def check_length(self, length: int) -> None:
        """Check the length of the next frame; `receive` must have taken all earlier frames.

        Args:
            length: the frame's length prefix.

        Raises:
            RemoteProtocolError: no request is awaiting a response, or the frame is larger than any response to the
                gate.
        """
        if not self._waiting:
            raise RemoteProtocolError(f"a frame of {length} bytes arrived, but no request is awaiting a response")
        _, form, is_gates = self._waiting[0]
        if is_gates and length > GATE_FRAME_BYTES_MAX:
            raise RemoteProtocolError(
                f"the {form.api.name} response has {length} bytes, "
                f"but at most {GATE_FRAME_BYTES_MAX} are allowed while connecting"
            )

    def receive(self, frame: Buffer) -> Received:
        """Read the response in a frame; a response to a request of the gate opens it, or adds to `take_outgoing`.

        Raises:
            RemoteProtocolError: the response answers no request, is out of order, or cannot be decoded; or the broker
                violates the login protocol.
            BrokerError: the broker refuses a login.
        """
        if type(frame) is not bytes:
            frame = frame_bytes(frame)
        if not self._waiting or self._waiting[0][2]:
            self.check_length(len(frame))
        correlation_id, form, is_gates = self._waiting.popleft()
        api = form.api
        header, start = form.response_header.decode(frame)
        if header.correlation_id != correlation_id:
            raise RemoteProtocolError(
                f"the response has correlation id {header.correlation_id}, but {correlation_id} ({api.name}) is next"
            )
        version = form.version
        if api.key == ApiKey.API_VERSIONS and opens_with_unsupported_version(frame, start):
            # The broker does not know the request's version, so it responds in the version that every client can read.
            version = api.versions.first
            message, end = program(api.response, version).decode(frame, start)
        else:
            message, end = form.response.decode(frame, start)
        if is_gates:
            self._pass_gate(message)
        return Received(correlation_id, api, version, message, len(frame) - end)

    def _framed_request(self, message: Message, version: int | None) -> tuple[Sent, _Form]:
        if version is None:
            version = self._negotiation.version_for(self._apis.of(type(message)))
        form = self._forms.get((type(message), version)) or self._form(message, version)
        correlation_id = self._next_id
        head = HEADER_START.pack(form.api.key, version, correlation_id) + form.header_end
        parts = framed(head, form.request.encode_parts(message))
        self._next_id = (correlation_id + 1) % _CORRELATION_IDS
        return Sent(correlation_id, form.api, version, parts), form

    def _form(self, message: Message, version: int) -> _Form:
        api = self._apis.of(type(message))
        request = program(type(message), version)
        header = RequestHeader(api.key, version, 0, self._client_id)
        form = self._forms[type(message), version] = _Form(
            api,
            version,
            program(RequestHeader, api.request_header_version(version)).encode(header)[HEADER_START.size :],
            request,
            program(ResponseHeader, api.response_header_version(version)),
            program(api.response, version),
        )
        return form

    def _ask(self, message: Message) -> None:
        """Send one of the gate's own requests, which are not subject to any limit."""
        is_first = message.SCHEMA.key == ApiKey.API_VERSIONS
        sent, form = self._framed_request(message, self._negotiation.request_version if is_first else None)
        self._waiting.append((sent.correlation_id, form, True))
        self._gate_waits += 1
        self._outgoing += sent.parts

    def _pass_gate(self, response: Message) -> None:
        self._gate_waits -= 1
        following = self._gate.receive(response)
        if following is not None:
            self._ask(following)
        elif not self._gate.is_shut:
            for sent, form, expect_response in self._held:
                self._outgoing += sent.parts
                if expect_response:
                    self._waiting.append((sent.correlation_id, form, False))
            self._held.clear()


def opens_with_unsupported_version(frame: Buffer, start: int) -> bool:
    """Return whether an ApiVersions response begins with the error code UNSUPPORTED_VERSION."""
    has_code = len(frame) - start >= _ERROR_CODE.size
    return has_code and bool(_ERROR_CODE.unpack_from(frame, start)[0] == ErrorCode.UNSUPPORTED_VERSION)
