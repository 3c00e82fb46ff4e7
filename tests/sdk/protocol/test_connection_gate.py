"""Requests wait for the gate; none leaves before the login is complete, and none is lost or overtaken.

Method: join a client connection and a server connection by hand, and send the broker's responses one at a time.
"""

from __future__ import annotations

from math import inf

import pytest

from kafkawire.sdk.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import (
    GATE_FRAME_BYTES_MAX,
    ClientConnection,
    Request,
    Sent,
    ServerConnection,
)
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.secret import Secret

ALL = {key: api.versions for key, api in APIS.items()}

PLAIN = PlainAuthenticator("alice", Secret("pencil"))
STATE = ConnectionState


def frames(parts: list[Buffer]) -> list[bytes]:
    return FrameBuffer().receive(b"".join(parts))


def offer(ranges: dict[ApiKey, VersionRange], error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    entries = [ApiVersionsResponse.ApiVersion(key, low, high) for key, (low, high) in ranges.items()]
    return ApiVersionsResponse(error_code=error, api_keys=entries)


class Pair:
    """A client with a gate, and the broker to which it is connected."""

    def __init__(self, max_in_flight: int = 1000, *, authenticates: bool = True) -> None:
        self.client = ClientConnection("me", max_in_flight, authenticates=authenticates)
        self.server = ServerConnection(ALL)
        self.requests: list[Request] = []

    def read(self, sent: Sent | None = None) -> list[Message]:
        """Let the broker read what the client writes, and return the requests."""
        parts = self.client.take_outgoing() + (sent.parts if sent is not None else [])
        self.requests += (read := [self.server.receive(frame) for frame in frames(parts)])
        return [request.message for request in read]

    def answer(self, message: Message) -> Message:
        """Let the broker respond to its oldest request."""
        (frame,) = frames(self.server.respond(self.requests.pop(0), message))
        return self.client.receive(frame).message

    def ready(self, lifetime_ms: int = 0) -> None:
        """Connect, and log in at time 0."""
        self.client.start()
        self.read()
        self.answer(offer(ALL))
        self.log_in(0)
        self.finish(lifetime_ms)

    def log_in(self, now_ms: int) -> None:
        self.client.log_in(PLAIN, now_ms, 0.0)
        assert self.read() == [SaslHandshakeRequest("PLAIN")]

    def finish(self, lifetime_ms: int = 0) -> list[Message]:
        """Let a login succeed, and return the client's next output."""
        self.answer(SaslHandshakeResponse())
        assert self.read() == [SaslAuthenticateRequest(b"\0alice\0pencil")]
        self.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))
        return self.read()


def test_the_gate_without_a_login() -> None:
    pair = Pair(authenticates=False)
    assert pair.client.state is STATE.RESOLVING
    for state in (STATE.CONNECTING, STATE.TLS):
        pair.client.enter(state)
        assert pair.client.state is state
    pair.client.start()
    with pytest.raises(
        LocalProtocolError, match="no request can be sent in the state 'versions', since the connection is not ready"
    ):
        pair.client.request(HeartbeatRequest())
    pair.read()
    assert pair.client.in_flight == 0
    pair.answer(offer(ALL))
    assert (pair.client.state, pair.client.wants_login, pair.read()) == (STATE.READY, False, [])
    assert pair.read(pair.client.request(HeartbeatRequest("g"))) == [HeartbeatRequest("g")]
    assert pair.client.in_flight == 1


def test_the_gate_with_a_login() -> None:
    pair = Pair()
    pair.client.start()
    pair.read()
    pair.answer(offer(ALL))
    assert (pair.client.state, pair.client.wants_login, pair.read()) == (STATE.AUTHENTICATION, True, [])
    with pytest.raises(LocalProtocolError, match="no request can be sent in the state 'sasl'"):
        pair.client.request(HeartbeatRequest())
    pair.log_in(0)
    assert not pair.client.wants_login
    assert pair.finish() == []
    assert pair.client.state is STATE.READY
    assert (pair.client.reauthenticate_at_ms, pair.client.session_ends_ms) == (inf, inf)


def test_the_gate_with_an_older_broker() -> None:
    """The second ApiVersions request is written although the caller does not ask for it."""
    pair = Pair(authenticates=False)
    pair.server = ServerConnection(ALL | {ApiKey.API_VERSIONS: VersionRange(0, 2)})
    pair.client.start()
    pair.read()
    pair.answer(offer({ApiKey.API_VERSIONS: VersionRange(0, 2)}, ErrorCode.UNSUPPORTED_VERSION))
    pair.read()
    assert pair.requests[0].version == 2
    pair.answer(offer(ALL))
    assert pair.client.state is STATE.READY


def test_requests_are_held_back_while_the_client_logs_in_again() -> None:
    """Held requests leave in order after those in flight, once the broker accepts the login; each gets its response."""
    pair = Pair()
    pair.ready(lifetime_ms=10_000)
    assert (pair.client.reauthenticate_at_ms, pair.client.session_ends_ms) == (8_500, 10_000)
    pair.read(pair.client.request(HeartbeatRequest("before")))
    pair.log_in(900)
    assert pair.client.state is STATE.REAUTHENTICATION
    held = [pair.client.request(HeartbeatRequest(f"held {number}")) for number in range(3)]
    silent = pair.client.request(ProduceRequest(acks=0), 3, expect_response=False)
    assert [sent.parts for sent in (*held, silent)] == [[], [], [], []]
    assert pair.client.in_flight == 5
    assert pair.answer(HeartbeatResponse(throttle_time_ms=1)) == HeartbeatResponse(throttle_time_ms=1)
    *released, last = pair.finish(lifetime_ms=1_000)
    assert [message.group_id for message in released] == ["held 0", "held 1", "held 2"]  # type: ignore[attr-defined]  # a heartbeat
    assert isinstance(last, ProduceRequest)
    assert pair.read(pair.client.request(HeartbeatRequest("after"))) == [HeartbeatRequest("after")]
    for number, sent in enumerate(held):
        (frame,) = frames(pair.server.respond(pair.requests.pop(0), HeartbeatResponse(throttle_time_ms=number)))
        received = pair.client.receive(frame)
        assert (received.correlation_id, received.message) == (
            sent.correlation_id,
            HeartbeatResponse(throttle_time_ms=number),
        )
    assert pair.client.in_flight == 1
    pair.server.respond(pair.requests.pop(0), None)  # the broker does not answer it
    pair.answer(HeartbeatResponse())
    pair.log_in(1_800)
    assert pair.finish(lifetime_ms=1_000) == []  # none of them is sent again
    assert pair.client.in_flight == 0


def test_requests_that_are_held_back_are_bounded() -> None:
    pair = Pair(max_in_flight=3)
    pair.ready(lifetime_ms=1_000)
    pair.client.request(HeartbeatRequest())
    pair.client.log_in(PLAIN, 900, 0.0)
    pair.client.request(HeartbeatRequest())
    pair.client.request(HeartbeatRequest(), expect_response=False)
    with pytest.raises(LocalProtocolError, match="3 requests are in flight, but at most 3 are allowed"):
        pair.client.request(HeartbeatRequest())


def test_a_login_is_not_held_up_by_the_limit() -> None:
    pair = Pair(max_in_flight=1)
    pair.ready(lifetime_ms=1_000)
    pair.read(pair.client.request(HeartbeatRequest()))
    pair.log_in(900)
    pair.answer(HeartbeatResponse())
    assert pair.finish() == []


def test_a_request_after_the_end_of_a_session_waits_for_the_next_login() -> None:
    pair = Pair()
    pair.ready(lifetime_ms=1_000)
    assert pair.client.request(HeartbeatRequest("in time"), now_ms=999).parts
    pair.read()
    assert pair.client.request(HeartbeatRequest("late"), now_ms=1_000).parts == []
    pair.requests.clear()
    pair = Pair()
    pair.ready(lifetime_ms=1_000)
    pair.client.request(HeartbeatRequest("late"), now_ms=1_000)
    assert pair.read() == []
    pair.log_in(1_001)
    assert pair.finish(1_000) == [HeartbeatRequest("late")]


def test_a_request_that_cannot_be_written_is_refused_at_once_also_when_it_would_be_held_back() -> None:
    pair = Pair()
    pair.ready(lifetime_ms=1_000)
    pair.log_in(900)
    with pytest.raises(LocalProtocolError):
        pair.client.request(HeartbeatRequest(group_id=5))  # type: ignore[arg-type]  # the point of the test
    assert pair.client.in_flight == 0
    assert pair.finish() == []


def test_a_login_that_is_refused() -> None:
    pair = Pair()
    pair.client.start()
    pair.read()
    pair.answer(offer(ALL))
    pair.log_in(0)
    pair.answer(SaslHandshakeResponse())
    pair.read()
    with pytest.raises(BrokerError, match="SASL_AUTHENTICATION_FAILED: PLAIN: wrong"):
        pair.answer(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong"))
    assert pair.client.state is STATE.AUTHENTICATION


def test_frames_are_small_until_the_connection_is_ready() -> None:
    for is_gates in (True, False):
        pair = Pair()
        if is_gates:
            pair.client.start()
        else:
            pair.ready()
            pair.client.request(HeartbeatRequest())
        expected = f"at most {GATE_FRAME_BYTES_MAX} are allowed while connecting" if is_gates else "at byte 4"
        with pytest.raises(RemoteProtocolError, match=expected):
            pair.client.receive(b"\xff" * (GATE_FRAME_BYTES_MAX + 1))


def test_a_length_is_refused_before_the_frame_is_there() -> None:
    pair = Pair()
    with pytest.raises(RemoteProtocolError, match="a frame of 0 bytes arrived, but no request is awaiting a response"):
        pair.client.check_length(0)
    pair.client.start()
    pair.client.check_length(GATE_FRAME_BYTES_MAX)
    expected = (
        f"^the ApiVersions response has {GATE_FRAME_BYTES_MAX + 1} bytes, "
        f"but at most {GATE_FRAME_BYTES_MAX} are allowed while"
    )
    with pytest.raises(RemoteProtocolError, match=expected):
        pair.client.check_length(GATE_FRAME_BYTES_MAX + 1)


def test_a_large_response_that_comes_before_those_of_a_new_login_is_taken() -> None:
    pair = Pair()
    pair.ready(lifetime_ms=1_000)
    pair.client.request(HeartbeatRequest())
    pair.log_in(900)
    assert pair.client.answers_others_first
    pair.client.check_length(GATE_FRAME_BYTES_MAX + 1)


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"HTTP/1.1 400 Bad Request", bytes(4), bytes(10), b"\xff" * 1000])
@pytest.mark.parametrize("step", range(3))
def test_garbage_in_each_state(step: int, garbage: bytes) -> None:
    """Whichever response is replaced, only the broker's mistake is reported."""
    pair = Pair()
    pair.client.start()
    pair.read()
    if step > 0:
        pair.answer(offer(ALL))
        pair.log_in(0)
    if step > 1:
        pair.answer(SaslHandshakeResponse())
        pair.read()
    with pytest.raises((RemoteProtocolError, BrokerError)):
        pair.client.receive(garbage)
