"""A session refuses requests before the login, delays the answer to a failed login, and closes when a login expires.

Method: use a session on a wire that records, a stand-in for a mechanism, and time that the test advances; the outcomes
are those of `SaslServerAuthenticator` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafkawire.reference_broker.requests.login_turns import LOGIN_TURN_MS, LoginTurns
from kafkawire.reference_broker.requests.session_login import (
    FAILURES_MAX,
    LOGIN_TIMEOUT_MS,
    ListenerLogin,
    LoginFailures,
)
from kafkawire.reference_broker.security.authentication import OfferedMechanism
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.requests.session_client import Client, fetch
from tests.reference_broker.security.played_mechanism import Played

DELAY_MS = 100
RECEIVE_BYTES_MAX = 1_000

GOOD = b"\0admin\0admin-secret"
BAD = b"\0admin\0wrong-secret"

Step = tuple[Message, int] | bytes


def new_client(
    bench: BrokerBench,
    max_reauth_ms: int = 0,
    delay_ms: int = DELAY_MS,
    begin: Callable[[], Played] = Played,
    failures: LoginFailures | None = None,
    turns: LoginTurns | None = None,
    **options: object,
) -> Client:
    mechanisms = {"PLAIN": OfferedMechanism(begin, max_reauth_ms), "OTHER": OfferedMechanism(begin, max_reauth_ms)}
    failures = failures or LoginFailures(bench.core.requests.services)
    turns = turns if turns is not None else LoginTurns(lambda: 0)
    return Client(bench, login=ListenerLogin(mechanisms, RECEIVE_BYTES_MAX, delay_ms, failures, turns), **options)


@pytest.fixture(autouse=True)
def silent_log(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    yield
    assert "-secret" not in caplog.text


@pytest.fixture
def client(bench: BrokerBench) -> Client:
    bench.create()
    return new_client(bench)


def shake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> list[Any]:
    client.send(SaslHandshakeRequest(mechanism), version)
    return client.answers()


def authenticate(client: Client, token: bytes = GOOD, version: int = 2) -> list[Any]:
    client.send(SaslAuthenticateRequest(token), version)
    return client.answers()


def log_in(client: Client) -> None:
    (shaken,) = shake(client)
    assert shaken.error_code == ErrorCode.NONE
    (answer,) = authenticate(client)
    assert answer.error_code == ErrorCode.NONE


def test_a_login(client: Client) -> None:
    client.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    (versions,) = client.answers()
    assert versions.error_code == ErrorCode.NONE
    (shaken,) = shake(client)
    assert (shaken.error_code, sorted(shaken.mechanisms)) == (ErrorCode.NONE, ["OTHER", "PLAIN"])
    assert str(client.session.peer.principal) == "User:ANONYMOUS"
    (answer,) = authenticate(client, b"alice")
    assert (answer.error_code, bytes(answer.auth_bytes)) == (ErrorCode.NONE, b"password?")
    (answer,) = authenticate(client, b"alice-secret")
    assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert (str(client.session.peer.principal), client.session.peer.is_token) == ("User:alice", True)
    assert client.session.peer.software_name == "test"
    client.send(MetadataRequest(None), 12)
    assert len(client.answers()) == 1


def test_bare_tokens(client: Client) -> None:
    (shaken,) = shake(client, version=0)
    assert shaken.error_code == ErrorCode.NONE
    client.session.receive_frame(b"admin")
    assert client.written() == b"\x00\x00\x00\x09password?"
    client.session.receive_frame(bytearray(b"admin-secret"))
    assert client.written() == bytes(LENGTH_BYTES)
    client.send(MetadataRequest(None), 12)
    assert len(client.answers()) == 1


def test_a_bare_token_that_is_refused_has_no_answer(client: Client) -> None:
    shake(client, version=0)
    client.session.receive_frame(BAD)
    client.bench.advance(DELAY_MS)
    assert not client.wire.parts
    assert not client.wire.is_open


def test_versions_that_are_refused_can_be_asked_for_again(client: Client) -> None:
    client.send(ApiVersionsRequest(client_software_name="-"), 3)
    assert client.answers()[0].error_code == ErrorCode.INVALID_REQUEST
    request = b"".join(ClientConnection().request(ApiVersionsRequest(), 4).parts)[LENGTH_BYTES:]
    client.session.receive_frame(request[:2] + (99).to_bytes(2, "big") + request[4:])
    assert client.wire.is_open
    assert int.from_bytes(client.written()[8:10], "big") == ErrorCode.UNSUPPORTED_VERSION
    log_in(client)


@pytest.mark.parametrize(
    ("before", "request_"),
    [
        ((), (MetadataRequest(None), 12)),
        ((), (SaslAuthenticateRequest(GOOD), 2)),
        (((ApiVersionsRequest(), 0),), (ApiVersionsRequest(), 0)),
        (((ApiVersionsRequest(), 0),), (MetadataRequest(None), 12)),
    ],
    ids=["first", "no mechanism", "versions twice", "after versions"],
)
def test_other_requests_close_the_connection(
    client: Client, before: tuple[tuple[Message, int], ...], request_: tuple[Message, int]
) -> None:
    for message, version in before:
        client.send(message, version)
    client.answers()
    client.send(*request_)
    assert not client.answers()
    assert not client.wire.is_open


@pytest.mark.parametrize("frame", [b"", b"\x00", b"GET / HTTP/1.1\r\n", b"\x60\x81\xff" * 9])
def test_nonsense_closes_the_connection(client: Client, frame: bytes, caplog: pytest.LogCaptureFixture) -> None:
    client.session.receive_frame(frame)
    assert not client.wire.is_open
    assert "another security.protocol" in caplog.text


def test_an_unsupported_mechanism_is_answered_late(client: Client) -> None:
    assert not shake(client, "GSSAPI")
    client.bench.advance(DELAY_MS - 1)
    assert not client.answers()
    client.bench.advance(1)
    (answer,) = client.answers()
    assert (answer.error_code, sorted(answer.mechanisms)) == (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["OTHER", "PLAIN"],
    )  # fmt: skip
    assert not client.wire.is_open


@pytest.mark.parametrize(("token", "text"), [
    (BAD, "Authentication failed: Invalid username or password"),
    (b"\0admin\0guess",
     "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"),
])  # fmt: skip
@pytest.mark.parametrize("delay_ms", [0, DELAY_MS])
def test_wrong_credentials_are_answered_late(
    bench: BrokerBench, token: bytes, text: str, delay_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client(bench, delay_ms=delay_ms)
    shake(client)
    client.send(SaslAuthenticateRequest(token), 2)
    client.send(MetadataRequest(None), 12)
    if delay_ms:
        assert client.paused == [True]
        assert not client.answers()
        assert client.wire.is_open
        bench.advance(delay_ms)
    (answer,) = client.answers()
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert not client.wire.is_open
    assert str(client.session.peer.principal) == "User:ANONYMOUS"
    assert "the login of User:ANONYMOUS at" in caplog.text


@pytest.mark.parametrize("token", [b"\0admin\0abort", b"\0admin\0defect"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_fails_gives_no_answer(client: Client, token: bytes, version: int) -> None:
    shake(client, version=version)
    if version:
        client.send(SaslAuthenticateRequest(token), 2)
    else:
        client.session.receive_frame(token)
    assert not client.wire.parts
    assert not client.wire.is_open


def test_another_request_instead_of_a_token(client: Client) -> None:
    shake(client)
    client.send(fetch(), 12)
    client.bench.advance(DELAY_MS)
    (answer,) = client.answers()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not client.wire.is_open


def test_an_oversized_token(client: Client) -> None:
    assert client.session.frame_bytes_max(0) == RECEIVE_BYTES_MAX
    shake(client)
    client.send(SaslAuthenticateRequest(bytes(RECEIVE_BYTES_MAX)), 2)
    client.bench.advance(DELAY_MS)
    assert not client.answers()
    assert not client.wire.is_open


def test_frames_are_limited_by_their_api_after_the_login(client: Client) -> None:
    log_in(client)
    assert client.session.frame_bytes_max(0) > RECEIVE_BYTES_MAX


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_login_that_stalls_ends(client: Client, steps: int) -> None:
    if steps:
        shake(client)
    if steps == 2:
        authenticate(client, b"admin")
    client.bench.advance(LOGIN_TIMEOUT_MS - 1)
    assert client.wire.is_open
    client.bench.advance(1)
    assert not client.wire.is_open


def test_a_login_that_is_complete_has_no_timeout(client: Client) -> None:
    log_in(client)
    client.bench.advance(LOGIN_TIMEOUT_MS)
    assert client.wire.is_open


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_connection_that_ends_during_its_login(client: Client, is_refused: bool) -> None:
    shake(client)
    if is_refused:
        authenticate(client, BAD)
    client.session.connection_lost(None)
    client.bench.advance(LOGIN_TIMEOUT_MS)
    assert not client.answers()


def test_without_an_end_another_login_is_refused(client: Client) -> None:
    log_in(client)
    assert shake(client)[0].error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(client)[0].error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.wire.is_open


@pytest.fixture
def limited(bench: BrokerBench) -> Client:
    """Return a client whose login lasts a minute."""
    bench.create()
    client = new_client(bench, 60_000)
    shake(client)
    (answer,) = authenticate(client)
    assert answer.session_lifetime_ms == 60_000
    return client


def test_a_login_is_renewed_before_it_ends(limited: Client) -> None:
    for _ in range(3):
        limited.bench.advance(50_000)
        log_in(limited)
        limited.send(MetadataRequest(None), 12)
        assert len(limited.answers()) == 1


def test_requests_in_flight_are_kept_during_another_login(limited: Client) -> None:
    limited.send(fetch(wait=500), 12)
    limited.send(SaslHandshakeRequest("PLAIN"), 1)
    limited.send(SaslAuthenticateRequest(GOOD), 2)
    limited.send(MetadataRequest(None), 12)
    assert not limited.answers()
    limited.bench.advance(500)
    limited.run_deferred()
    assert [type(answer).__name__ for answer in limited.answers()] == [
        "FetchResponse", "SaslHandshakeResponse", "SaslAuthenticateResponse", "MetadataResponse",
    ]  # fmt: skip


def test_an_expired_login_closes_the_connection_at_the_next_request(limited: Client) -> None:
    limited.bench.advance(60_000)
    limited.send(MetadataRequest(None), 12)
    assert len(limited.answers()) == 1, "the end itself is still in time"
    limited.bench.advance(1)
    assert limited.wire.is_open
    limited.send(MetadataRequest(None), 12)
    assert not limited.answers()
    assert not limited.wire.is_open


def test_an_expired_login_can_be_renewed(limited: Client) -> None:
    limited.bench.advance(70_000)
    log_in(limited)
    limited.send(MetadataRequest(None), 12)
    assert len(limited.answers()) == 1


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", b"\0alice\0alice-secret",
         "Cannot change principals during re-authentication from User.admin: User.alice"),
        ("PLAIN", b"\0admin\0guess",
         "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"),
        ("OTHER", GOOD, None),
    ],
    ids=["other principal", "wrong password", "other mechanism"],
)  # fmt: skip
def test_another_login_that_fails(limited: Client, mechanism: str, token: bytes, text: str | None) -> None:
    (shaken,) = shake(limited, mechanism)
    assert shaken.error_code == ErrorCode.NONE
    limited.send(SaslAuthenticateRequest(token), 2)
    limited.bench.advance(DELAY_MS)
    assert [answer.error_message for answer in limited.answers()] == ([] if text is None else [text])
    assert not limited.wire.is_open


def test_another_login_with_an_unsupported_mechanism(limited: Client) -> None:
    assert not shake(limited, "GSSAPI")
    assert not limited.wire.is_open


def test_another_login_too_soon_is_a_request_like_others(limited: Client) -> None:
    log_in(limited)
    assert shake(limited)[0].error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert limited.wire.is_open


def test_credentials_that_expire_end_the_session(bench: BrokerBench) -> None:
    bench.create()
    client = new_client(bench, begin=lambda: Played(bench.now_ms + 5_000))
    shake(client)
    assert authenticate(client)[0].session_lifetime_ms == 5_000
    bench.advance(5_001)
    client.send(MetadataRequest(None), 12)
    assert not client.wire.is_open


def test_only_so_many_failures_wait(bench: BrokerBench) -> None:
    failures = LoginFailures(bench.core.requests.services)
    first = new_client(bench, failures=failures)
    shake(first)
    authenticate(first, BAD)
    told: list[int] = []
    for number in range(FAILURES_MAX):
        failures.later(bench.now_ms + DELAY_MS, partial(told.append, number))
    assert first.answers()[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not first.wire.is_open
    assert not told
    bench.advance(DELAY_MS)
    assert told == [*range(FAILURES_MAX)]


class Loop:
    """An event loop that counts its turns; each check of a password takes a millisecond."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.deferred: list[Callable[[], None]] = []
        self.turns = LoginTurns(lambda: self.now_ms)

    def begin(self) -> Played:
        return Slow(self)

    def run_a_turn(self) -> None:
        calls, self.deferred[:] = self.deferred[:], []
        for call in calls:
            call()


class Slow(Played):
    """A mechanism that takes a millisecond."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop

    def respond(self, response: bytes, now_ms: int) -> bytes:
        self._loop.now_ms += 1
        return super().respond(response, now_ms)


def clients_of(bench: BrokerBench, loop: Loop, count: int) -> list[Client]:
    """Return clients that have chosen the mechanism."""
    clients = []
    for _ in range(count):
        client = new_client(bench, begin=loop.begin, turns=loop.turns, defer=loop.deferred.append)
        shake(client)
        clients.append(client)
    loop.run_a_turn()
    assert not loop.deferred
    return clients


def test_many_logins_at_once_take_turns(bench: BrokerBench) -> None:
    loop = Loop()
    clients = clients_of(bench, loop, 7)
    for client in clients:
        client.send(SaslAuthenticateRequest(GOOD), 2)
    answered = [sum(bool(client.wire.parts) for client in clients)]
    assert clients[-1].paused == [True]
    while loop.deferred:
        loop.run_a_turn()
        answered.append(sum(bool(client.wire.parts) for client in clients))
    assert answered == [LOGIN_TURN_MS, 2 * LOGIN_TURN_MS, 3 * LOGIN_TURN_MS, 7]
    assert clients[-1].paused == [True, False]
    assert [client.answers()[0].error_code for client in clients] == [ErrorCode.NONE] * 7


def test_many_refusals_at_once_take_turns(bench: BrokerBench) -> None:
    loop = Loop()
    clients = clients_of(bench, loop, 4)
    for client in clients:
        client.send(SaslAuthenticateRequest(BAD), 2)
    while loop.deferred:
        loop.run_a_turn()
    loop.turns.has_time(lambda: None, loop.deferred.append)
    loop.now_ms += LOGIN_TURN_MS  # there is no time left in this turn
    bench.advance(DELAY_MS)
    assert not any(client.wire.parts for client in clients)
    loop.run_a_turn()
    assert [client.answers()[0].error_code for client in clients] == [ErrorCode.SASL_AUTHENTICATION_FAILED] * 4
    assert not any(client.wire.is_open for client in clients)


def test_a_connection_that_ends_while_it_waits_for_its_turn(bench: BrokerBench) -> None:
    loop = Loop()
    *others, last = clients_of(bench, loop, 4)
    for client in (*others, last):
        client.send(SaslAuthenticateRequest(GOOD), 2)
    last.session.connection_lost(None)
    while loop.deferred:
        loop.run_a_turn()
    assert not last.wire.parts
    assert all(client.wire.parts for client in others)


def test_requests_that_arrive_behind_a_waiting_login_keep_their_order(bench: BrokerBench) -> None:
    bench.create()
    loop = Loop()
    *others, last = clients_of(bench, loop, 4)
    for client in (*others, last):
        client.send(SaslAuthenticateRequest(GOOD), 2)
    last.send(MetadataRequest(None), 12)
    assert not last.wire.parts
    while loop.deferred:
        loop.run_a_turn()
    assert [type(answer).__name__ for answer in last.answers()] == ["SaslAuthenticateResponse", "MetadataResponse"]
