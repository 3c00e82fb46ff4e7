"""The gate asks for versions, logs in, and then opens; it never opens otherwise, and it says when to log in again.

Method: use a scripted authenticator and hand-built broker responses, in order and out of order. test_connection.py
tests the frames, and the folder `sasl` the mechanisms.
"""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.gate import (
    CHALLENGE_BYTES_MAX,
    CONNECTION_EDGES,
    ROUNDS_MAX,
    ConnectionState,
    Gate,
)
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.sdk.protocol.negotiation import Negotiation
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

State = ConnectionState

#: A login: its start, the number of challenges, the session's lifetime, and a random number.
LOGINS = st.tuples(st.integers(0, 10**6), st.integers(0, 9), st.sampled_from([0, 1, 1_000, 60_000]), st.floats(0, 0.99))


class Script:
    """An authenticator that gives the test's answers; None ends the login."""

    mechanism = "SCRIPT"

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.challenges: list[bytes] = []

    def first_message(self) -> bytes:
        return b"first"

    def respond(self, challenge: bytes) -> bytes | None:
        self.challenges.append(challenge)
        return self.answers.pop(0)


def versions(
    error: int = 0, handshake: tuple[int, int] | None = (0, 1), authenticate: tuple[int, int] = (0, 0)
) -> ApiVersionsResponse:
    ranges = {ApiKey.SASL_HANDSHAKE: handshake, ApiKey.SASL_AUTHENTICATE: authenticate, ApiKey.API_VERSIONS: (0, 2)}
    entries = [ApiVersionsResponse.ApiVersion(key, *each) for key, each in ranges.items() if each is not None]
    return ApiVersionsResponse(error, entries)


def asking(handshake: tuple[int, int] | None = (0, 1)) -> Gate:
    """Return a gate that is waiting for a login."""
    gate = Gate(Negotiation(), authenticates=True)
    gate.start()
    gate.receive(versions(handshake=handshake))
    return gate


def log_in(gate: Gate, now_ms: int = 0, lifetime_ms: int = 0, fraction: float = 0.0) -> None:
    """Complete a login."""
    gate.log_in(Script(None), now_ms, fraction)
    gate.receive(SaslHandshakeResponse())
    assert gate.receive(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)) is None


def test_without_a_login() -> None:
    gate = Gate(Negotiation(), authenticates=False)
    assert (gate.state, gate.is_shut) == (State.RESOLVING, False)
    assert isinstance(gate.start(), ApiVersionsRequest)
    assert (gate.state, gate.is_shut) == (State.VERSIONS, True)
    assert gate.receive(versions()) is None
    assert (gate.state, gate.is_shut, gate.wants_login) == (State.READY, False, False)
    assert (gate.reauthenticate_at_ms, gate.session_ends_ms) == (inf, inf)


def test_an_older_broker_is_asked_for_its_versions_again() -> None:
    gate = Gate(Negotiation(), authenticates=False)
    gate.start()
    assert isinstance(gate.receive(versions(ErrorCode.UNSUPPORTED_VERSION)), ApiVersionsRequest)
    assert gate.state is State.VERSIONS
    assert gate.receive(versions()) is None
    assert gate.state is State.READY


def test_a_login_of_two_rounds() -> None:
    gate = asking()
    assert (gate.state, gate.is_shut, gate.wants_login) == (State.AUTHENTICATION, True, True)
    script = Script(b"second", None)
    assert gate.log_in(script, 0, 0.0) == SaslHandshakeRequest("SCRIPT")
    assert not gate.wants_login
    assert gate.receive(SaslHandshakeResponse()) == SaslAuthenticateRequest(b"first")
    assert gate.receive(SaslAuthenticateResponse(auth_bytes=b"one")) == SaslAuthenticateRequest(b"second")
    assert gate.is_shut
    assert gate.receive(SaslAuthenticateResponse(auth_bytes=b"two")) is None
    assert (gate.state, gate.is_shut) == (State.READY, False)
    assert script.challenges == [b"one", b"two"]
    assert (gate.reauthenticate_at_ms, gate.session_ends_ms) == (inf, inf)


@pytest.mark.parametrize(("fraction", "due_ms"), [(0.0, 9_500), (0.5, 10_000), (1.0, 10_500)])
def test_a_session_with_an_end(fraction: float, due_ms: float) -> None:
    """Kafka's client logs in again after 85 to 95 % of the session, measured here from the start of the login."""
    gate = asking()
    log_in(gate, now_ms=1_000, lifetime_ms=10_000, fraction=fraction)
    assert gate.reauthenticate_at_ms == pytest.approx(due_ms)
    assert gate.session_ends_ms == 11_000


@pytest.mark.parametrize("lifetime_ms", [1, 600, 1_290])
def test_a_session_that_is_shorter_than_the_time_between_logins(lifetime_ms: int) -> None:
    """A broker refuses a login within one second of the last one, so requests wait for the next one."""
    gate = asking()
    log_in(gate, now_ms=1_000, lifetime_ms=lifetime_ms)
    assert (gate.reauthenticate_at_ms, gate.session_ends_ms) == (2_100, 1_000 + lifetime_ms)


def test_a_login_that_asks_again_for_its_credentials() -> None:
    """The session is measured from the second time, since the broker answers earlier requests before the handshake."""
    gate = asking()
    log_in(gate, lifetime_ms=10_000)
    with pytest.raises(LocalProtocolError, match="credentials are not wanted in the state 'ready'"):
        gate.authenticate(Script(None), 8_500)
    gate.log_in(Script(None), 8_500, 0.5, asks_again=True)
    assert not gate.wants_credentials
    assert gate.receive(SaslHandshakeResponse()) is None
    assert (gate.wants_credentials, gate.is_shut, gate.state) == (True, True, State.REAUTHENTICATION)
    assert gate.authenticate(Script(b"more", None), 12_000) == SaslAuthenticateRequest(b"first")
    assert not gate.wants_credentials
    assert gate.receive(SaslAuthenticateResponse()) == SaslAuthenticateRequest(b"more")
    assert gate.receive(SaslAuthenticateResponse(session_lifetime_ms=10_000)) is None
    assert (gate.state, gate.session_ends_ms, gate.reauthenticate_at_ms) == (State.READY, 22_000, 21_000)
    gate.log_in(Script(None), 21_000, 0.5)
    assert gate.receive(SaslHandshakeResponse()) == SaslAuthenticateRequest(b"first"), "only if it is told to"


def test_logging_in_again() -> None:
    gate = asking()
    log_in(gate, now_ms=0, lifetime_ms=1_000)
    gate.log_in(Script(None), 900, 0.0)
    assert (gate.state, gate.is_shut, gate.wants_login) == (State.REAUTHENTICATION, True, False)
    gate.receive(SaslHandshakeResponse())
    gate.receive(SaslAuthenticateResponse(session_lifetime_ms=0))
    assert (gate.state, gate.is_shut) == (State.READY, False)
    assert (gate.reauthenticate_at_ms, gate.session_ends_ms) == (inf, inf)


def test_a_login_at_the_wrong_time() -> None:
    for authenticates, steps in ((True, 0), (True, 1), (False, 2)):
        gate = Gate(Negotiation(), authenticates=authenticates)
        if steps > 0:
            gate.start()
        if steps > 1:
            gate.receive(versions())
        with pytest.raises(LocalProtocolError, match=f"cannot begin in the state '{gate.state.value}'"):
            gate.log_in(Script(None), 0, 0.0)


def test_a_response_that_was_not_asked_for() -> None:
    gate = asking()
    with pytest.raises(LocalProtocolError, match="SaslHandshakeResponse: the gate did not request it"):
        gate.receive(SaslHandshakeResponse())
    gate.log_in(Script(None), 0, 0.0)
    with pytest.raises(LocalProtocolError, match="SaslHandshakeRequest: the gate did not request it"):
        gate.receive(SaslHandshakeRequest())


def test_two_logins_at_once() -> None:
    gate = asking()
    gate.log_in(Script(None), 0, 0.0)
    with pytest.raises(LocalProtocolError, match="cannot begin in the state 'sasl'"):
        gate.log_in(Script(None), 0, 0.0)


@pytest.mark.parametrize("handshake", [None, (0, 0)])
def test_a_broker_whose_sasl_is_too_old(handshake: tuple[int, int] | None) -> None:
    with pytest.raises(RemoteProtocolError, match=r"in version 1 or later; does this port use SASL\?$"):
        asking(handshake).log_in(Script(None), 0, 0.0)


def test_a_mechanism_that_the_broker_does_not_offer() -> None:
    gate = asking()
    gate.log_in(Script(None), 0, 0.0)
    with pytest.raises(BrokerError, match="SCRIPT was refused; the broker offers PLAIN, SCRAM") as caught:
        gate.receive(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM", "PLAIN"]))
    assert caught.value.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_broker_that_offers_nothing() -> None:
    gate = asking()
    gate.log_in(Script(None), 0, 0.0)
    with pytest.raises(BrokerError, match="the broker offers none"):
        gate.receive(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM))


def test_a_listener_without_sasl() -> None:
    gate = asking()
    gate.log_in(Script(None), 0, 0.0)
    with pytest.raises(BrokerError, match=r"this broker listener does not use SASL$"):
        gate.receive(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))


def test_a_login_that_comes_too_early() -> None:
    gate = asking()
    log_in(gate, lifetime_ms=10_000)
    gate.log_in(Script(None), 500, 0.0)
    with pytest.raises(BrokerError, match="does not accept another login on this connection now; it takes one per sec"):
        gate.receive(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("wrong password", "SCRIPT: wrong password$"),
        (None, "gives no reason"),
        ("a\nb\x1b[31m", r"SCRIPT: a\?b\?\[31m$"),
        ("x" * 9999, "SCRIPT: x{200}$"),
    ],
)
def test_a_login_that_is_refused(said: str | None, shown: str) -> None:
    """The broker's reason is shown on one line of bounded length."""
    gate = asking()
    gate.log_in(Script(None), 0, 0.0)
    gate.receive(SaslHandshakeResponse())
    with pytest.raises(BrokerError, match=shown) as caught:
        gate.receive(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, said))
    assert not caught.value.retriable
    assert gate.is_shut


def test_a_challenge_is_bounded() -> None:
    for size, fits in ((CHALLENGE_BYTES_MAX, True), (CHALLENGE_BYTES_MAX + 1, False)):
        gate = asking()
        gate.log_in(Script(None), 0, 0.0)
        gate.receive(SaslHandshakeResponse())
        response = SaslAuthenticateResponse(auth_bytes=bytes(size))
        if fits:
            gate.receive(response)
        else:
            with pytest.raises(
                RemoteProtocolError, match=f"has {size} bytes, but at most {CHALLENGE_BYTES_MAX} are allowed"
            ):
                gate.receive(response)


def test_challenges_are_counted() -> None:
    gate = asking()
    gate.log_in(Script(*[b"more"] * ROUNDS_MAX), 0, 0.0)
    gate.receive(SaslHandshakeResponse())
    for _ in range(ROUNDS_MAX - 1):
        assert gate.receive(SaslAuthenticateResponse()) is not None
    with pytest.raises(RemoteProtocolError, match=f"not complete after {ROUNDS_MAX} challenges"):
        gate.receive(SaslAuthenticateResponse())


def test_the_count_starts_again_with_each_login() -> None:
    gate = asking()
    for _ in range(ROUNDS_MAX + 1):
        gate.log_in(Script(b"more", None), 0, 0.0)
        gate.receive(SaslHandshakeResponse())
        assert gate.receive(SaslAuthenticateResponse()) is not None
        assert gate.receive(SaslAuthenticateResponse()) is None
    assert gate.state is State.READY


@given(st.lists(LOGINS, min_size=1, max_size=5), LOGINS)
def test_nothing_of_a_login_outlives_the_next(
    past: list[tuple[int, int, int, float]], following: tuple[int, int, int, float]
) -> None:
    """After a second login, the rounds, session and next login are those of a gate after its first login."""
    old, new = asking(), asking()
    for login in past:
        _log_in_by_rounds(old, *login)
    _log_in_by_rounds(new, *past[-1])
    assert _shown(old) == _shown(new)
    for gate in (old, new):
        _log_in_by_rounds(gate, *following)
    assert _shown(old) == _shown(new)


def _log_in_by_rounds(gate: Gate, now_ms: int, rounds: int, lifetime_ms: int, fraction: float) -> None:
    assert gate.log_in(Script(*[b"more"] * rounds, None), now_ms, fraction) == SaslHandshakeRequest("SCRIPT")
    assert gate.is_shut
    assert gate.receive(SaslHandshakeResponse()) == SaslAuthenticateRequest(b"first")
    for _ in range(rounds):  # only a login's last response states the lifetime of the session
        assert gate.receive(SaslAuthenticateResponse(session_lifetime_ms=7)) == SaslAuthenticateRequest(b"more")
    assert gate.receive(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)) is None


def _shown(gate: Gate) -> tuple[object, ...]:
    return gate.state, gate.is_shut, gate.wants_login, gate.session_ends_ms, gate.reauthenticate_at_ms


NETWORK = (State.RESOLVING, State.CONNECTING, State.TLS)


def gate_in(state: State, *, authenticates: bool) -> Gate:
    """Return a gate in a state."""
    gate = Gate(Negotiation(), authenticates=authenticates)
    if state in NETWORK:
        gate.report(state)
        return gate
    gate.start()
    if state is not State.VERSIONS:
        gate.receive(versions())
    if authenticates and state in (State.READY, State.REAUTHENTICATION):
        log_in(gate)
    if state is State.REAUTHENTICATION:
        gate.log_in(Script(None), 0, 0.0)
    assert gate.state is state
    return gate


def lead(gate: Gate, state: State) -> None:
    """Apply the events that lead to a state."""
    if state in NETWORK:
        gate.report(state)
    elif state is State.VERSIONS:
        gate.start()
    elif gate.state is State.VERSIONS:
        gate.receive(versions())
    elif gate.state is State.AUTHENTICATION:
        log_in(gate)
    elif gate.state is State.REAUTHENTICATION:
        gate.receive(SaslHandshakeResponse())
        gate.receive(SaslAuthenticateResponse())
    else:
        gate.log_in(Script(None), 0, 0.0)


@pytest.mark.parametrize(("before", "after"), list(CONNECTION_EDGES))
def test_every_edge(before: State, after: State) -> None:
    gate = gate_in(before, authenticates=(before, after) != (State.VERSIONS, State.READY))
    lead(gate, after)
    assert gate.state is after


@pytest.mark.parametrize("before", [state for state in State if state not in NETWORK])
@pytest.mark.parametrize("after", [*NETWORK, State.VERSIONS])
def test_a_gate_is_opened_once(before: State, after: State) -> None:
    gate = gate_in(before, authenticates=True)
    with pytest.raises(LocalProtocolError, match=f"a connection cannot become {after.name} while it is {before.name}"):
        lead(gate, after)
    assert gate.state is before


@pytest.mark.parametrize("state", [state for state in State if state not in NETWORK])
def test_a_network_reports_its_own_states(state: State) -> None:
    gate = Gate(Negotiation(), authenticates=True)
    with pytest.raises(LocalProtocolError, match=f"expected RESOLVING, CONNECTING or TLS, got {state.name}"):
        gate.report(state)
    assert gate.state is State.RESOLVING


def test_when_the_network_is_connected_but_the_connection_is_not_ready() -> None:
    assert [state for state in State if state.is_before_ready] == [State.VERSIONS, State.AUTHENTICATION]
