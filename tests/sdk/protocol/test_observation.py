"""Frames are read as the client and the broker would read them; unreadable frames are reported and skipped.

Method: join a client connection and a server connection by hand, with an observer between them. Send every API and
version, the special exchanges (ApiVersions, acks 0, SASL tokens, a capture that starts inside a connection), and
damaged frames.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.connection import ClientConnection, Received, Request, ServerConnection
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.sdk.protocol.observation import ObservedConnection, Unread, observe, read_request
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

ALL = {key: api.versions for key, api in APIS.items()}
VERSIONS = [(key, version) for key, api in APIS.items() for version in api.versions.numbers()]


def frame(parts: list[Buffer]) -> bytes:
    (whole,) = FrameBuffer().receive(b"".join(parts))
    return whole


class Conversation:
    """A client and a broker with an observer between them.

    Attributes:
        observed: the observer.
    """

    def __init__(self) -> None:
        self.observed = ObservedConnection()
        self._client, self._server = ClientConnection("c"), ServerConnection(ALL)

    def request(self, message: Message, version: int, expect_response: bool = True) -> bytes:
        return frame(self._client.request(message, version, expect_response=expect_response).parts)

    def response(self, request: bytes, message: Message) -> bytes:
        return frame(self._server.respond(self._server.receive(request), message))

    def exchange(self, request: Message, response: Message, version: int) -> tuple[Request | Unread, Received | Unread]:
        sent = self.request(request, version)
        return self.observed.receive_request(sent), self.observed.receive_response(self.response(sent, response))


def with_version(request: bytes, version: int) -> bytes:
    return request[:2] + version.to_bytes(2, "big") + request[4:]


def test_every_api_and_version(subtests: pytest.Subtests) -> None:
    for key, version in VERSIONS:
        with subtests.test(key=key, version=version):
            name = APIS[key].name
            asked, answer = message_class(f"{name}Request")(), message_class(f"{name}Response")()
            if isinstance(asked, ProduceRequest):
                asked.acks = -1
            request, received = Conversation().exchange(asked, answer, version)
            assert isinstance(request, Request)
            assert isinstance(received, Received)
            assert (request.api.key, request.version, request.client_id, request.message) == (key, version, "c", asked)
            assert (received.api.key, received.version, received.message, received.unread_bytes) == (
                key,
                version,
                answer,
                0,
            )
            assert received.correlation_id == request.correlation_id


def test_observe_reads_for_another() -> None:
    """The request is taken from the connection that sent it, or is read from its frame."""
    client, server = ClientConnection(), ServerConnection(ALL)
    sent = client.request(HeartbeatRequest("g"), 4)
    request = server.receive(frame(sent.parts))
    answer = frame(server.respond(request, HeartbeatResponse(5)))
    for known in (sent, request, read_request(frame(sent.parts))):
        assert observe(known, answer + b"more") == (0, sent.api, 4, HeartbeatResponse(5), 4)
    with pytest.raises(RemoteProtocolError, match="correlation id 65536, but the Heartbeat request has 0"):
        observe(sent, b"\0\1" + answer[2:])
    with pytest.raises(DecodeError):
        observe(sent, answer[:-1])


def test_an_unknown_version_of_api_versions() -> None:
    talk = Conversation()
    plain = with_version(talk.request(ApiVersionsRequest("me", "1"), 4), 99)
    for request in (read_request(plain), ServerConnection(ALL).receive(plain)):
        assert (request.version_error, request.version, request.asked_version) == (True, 0, 99)
        assert to_json(request.message, request.version) == {}
        assert "version 99 (unknown here)" in repr(request)
    assert read_request(plain).client_id == "c"
    assert read_request(plain[:9]).client_id is None
    refusal = talk.response(plain, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION))
    received = observe(read_request(plain), refusal)
    assert (received.version, received.message) == (0, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION))
    with pytest.raises(UnsupportedVersion, match="ApiVersions has no version 99; the known"):
        observe(read_request(plain), bytes(20))


@pytest.mark.parametrize("version", APIS[ApiKey.API_VERSIONS].versions.numbers())
def test_a_broker_that_does_not_know_the_version_of_api_versions(version: int) -> None:
    """The response is in the first version, with the header that ApiVersions responses always have."""
    observed = ObservedConnection()
    sent = frame(ClientConnection().request(ApiVersionsRequest(), version).parts)
    assert isinstance(observed.receive_request(sent), Request)
    server = ServerConnection(ALL)
    answer = frame(server.respond(server.receive(with_version(sent, 99)), ApiVersionsResponse(35)))
    received = observed.receive_response(answer)
    assert isinstance(received, Received)
    assert (received.version, received.message) == (0, ApiVersionsResponse(35))


def test_produce_without_response() -> None:
    talk = Conversation()
    silent = talk.observed.receive_request(talk.request(ProduceRequest(acks=0), 9, expect_response=False))
    assert isinstance(silent, Request)
    assert talk.observed.in_flight == 0
    sent = talk.request(ProduceRequest(acks=1), 9)
    talk.observed.receive_request(sent)
    received = talk.observed.receive_response(talk.response(sent, ProduceResponse(throttle_time_ms=3)))
    assert isinstance(received, Received)
    assert received.message == ProduceResponse(throttle_time_ms=3)
    assert talk.observed.unanswered == 0


def test_tokens_of_sasl() -> None:
    """After a handshake in version 0, tokens have no header until the next frame that is a request."""
    talk = Conversation()
    talk.exchange(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse(), 0)
    for token in (b"\0alice\0secret", b"", b"\xff" * 20):
        asked, answer = talk.observed.receive_request(token), talk.observed.receive_response(b"ok")
        assert repr(asked) == f"<SASL token of the client, {len(token)} bytes>"
        assert repr(answer) == "<SASL token of the broker, 2 bytes>"
    request, received = talk.exchange(HeartbeatRequest("g"), HeartbeatResponse(), 4)
    assert isinstance(request, Request)
    assert isinstance(received, Received)
    assert isinstance(talk.observed.receive_request(b"\0alice\0secret"), Unread)
    assert talk.observed.in_flight == 1


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.NONE), (0, ErrorCode.UNSUPPORTED_SASL_MECHANISM)])
def test_a_handshake_that_no_tokens_follow(version: int, error: ErrorCode) -> None:
    talk = Conversation()
    talk.exchange(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse(error), version)
    unread = talk.observed.receive_request(b"\0alice\0secret")
    assert isinstance(unread, Unread)
    assert unread.what == "request"


def test_what_is_unknown_is_named() -> None:
    observed = ObservedConnection()
    unread = observed.receive_request(b"\x7f\0\0\3\0\0\0\7body")
    assert repr(unread) == ("<API key 32512 request, version 3, correlation id 7, 12 bytes: no API has the key 32512>")
    answer = observed.receive_response(b"\0\0\0\7body")
    assert repr(answer) == (
        "<API key 32512 response, version 3, correlation id 7, 8 bytes: its request could not be decoded>"
    )
    unread = observed.receive_request(with_version(Conversation().request(HeartbeatRequest(), 4), 77))
    assert "Heartbeat has no version 77" in repr(unread)
    assert repr(observed.receive_request(b"\0\1")) == (
        "<request, 2 bytes: the request has 2 bytes, but 8 are needed for its header>"
    )
    assert "4 bytes are needed" in repr(ObservedConnection().receive_response(b"\0"))


def test_a_request_that_is_cut() -> None:
    talk = Conversation()
    sent = talk.request(HeartbeatRequest("group"), 4)
    for end in range(8, len(sent)):
        unread = talk.observed.receive_request(sent[:end])
        assert isinstance(unread, Unread), end
        assert unread.name == "Heartbeat"


def test_a_response_that_is_damaged() -> None:
    talk = Conversation()
    sent = talk.request(HeartbeatRequest("g"), 4)
    talk.observed.receive_request(sent)
    unread = talk.observed.receive_response(talk.response(sent, HeartbeatResponse())[:-1])
    assert isinstance(unread, Unread)
    assert (unread.name, unread.version) == ("Heartbeat", 4)
    assert "bytes are needed" in unread.reason


def test_a_beginning_inside_the_connection() -> None:
    talk = Conversation()
    unseen = talk.request(HeartbeatRequest(), 4)
    sent = talk.request(HeartbeatRequest(), 4)
    assert isinstance(talk.observed.receive_request(sent), Request)
    early = talk.observed.receive_response(talk.response(unseen, HeartbeatResponse()))
    assert repr(early) == "<response, correlation id 0, 12 bytes: its request was not seen>"
    assert isinstance(talk.observed.receive_response(talk.response(sent, HeartbeatResponse())), Received)


def test_responses_that_were_not_seen() -> None:
    talk = Conversation()
    sent = [talk.request(HeartbeatRequest(), 4) for _ in range(3)]
    answers = [talk.response(each, HeartbeatResponse()) for each in sent]
    for each in sent:
        talk.observed.receive_request(each)
    assert isinstance(talk.observed.receive_response(answers[2]), Received)
    assert (talk.observed.unanswered, talk.observed.in_flight) == (2, 0)


def test_requests_that_are_never_answered_are_forgotten() -> None:
    observed, client = ObservedConnection(max_in_flight=2), ClientConnection()
    for _ in range(5):
        observed.receive_request(frame(client.request(HeartbeatRequest(), 4).parts))
    assert (observed.in_flight, observed.unanswered) == (2, 3)


@pytest.mark.parametrize("wrong", [0, -1, None, "5"])
def test_a_connection_without_requests_is_refused(wrong: Any) -> None:
    with pytest.raises(LocalProtocolError, match=f"max_in_flight must be an integer of at least 1, got {wrong!r}"):
        ObservedConnection(max_in_flight=wrong)


def test_reprs_are_short() -> None:
    talk = Conversation()
    client = ClientConnection("c")
    assert repr(client.request(HeartbeatRequest("g"), 4)) == (
        "<Heartbeat request, version 4, correlation id 0: 25 bytes to be sent>"
    )
    request, received = talk.exchange(HeartbeatRequest("g" * 10_000), HeartbeatResponse(9), 4)
    assert repr(request) == (
        f"<Heartbeat request, version 4, correlation id 0, client 'c': HeartbeatRequest(group_id='{'g' * 60}'…)>"
    )
    assert repr(received) == (
        "<Heartbeat response, version 4, correlation id 0: HeartbeatResponse(throttle_time_ms=9)>"
    )
    large = FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t" * 249)] * 1_000)
    assert len(repr(Received(1, APIS[ApiKey.FETCH], 4, large, 12))) < 600
    assert len(repr(Request(APIS[ApiKey.FETCH], 4, 1, "c" * 9_999, large, 0))) < 700
    assert len(repr(Unread("response", 1, "x" * 10_000))) < 300


def test_a_frame_in_any_buffer() -> None:
    """Frames are read as bytes, even if a buffer's elements are wider than a byte or not contiguous."""
    conversation = Conversation()
    sent = conversation.request(HeartbeatRequest("g" * 9), 0)
    answer = conversation.response(sent, HeartbeatResponse(error_code=3)) + b"\0\0"
    for cast in (lambda data: memoryview(array("i", data)), spread):
        observed, request = ObservedConnection(), read_request(cast(sent))
        assert repr(observed.receive_request(cast(sent))) == repr(request)
        for received in (observe(request, cast(answer)), observed.receive_response(cast(answer))):
            assert isinstance(received, Received)
            assert (received.message, received.unread_bytes) == (HeartbeatResponse(error_code=3), 2)
        assert repr(observed.receive_request(cast(bytes(4)))).startswith("<request, 4 bytes: ")


def spread(data: bytes) -> memoryview:
    """Return bytes that are not contiguous."""
    twice = bytearray(2 * len(data))
    twice[::2] = data
    return memoryview(twice)[::2]
