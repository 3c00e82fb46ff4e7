"""The states of a client's connection: the steps before requests can be sent, and later logins.

    dns → tcp → tls → versions → sasl → ready ⇄ re-authentication

The network reports the first three. The gate then asks the broker for its versions, logs in and, if the broker limits
sessions, decides when to log in again. It is part of `ClientConnection`, which sends the gate's requests and holds back
all others as long as the broker would not accept them.

Source: `SaslClientAuthenticator` in Apache Kafka; KIP-43, KIP-152, KIP-368 (re-authentication).
"""

from enum import Enum
from math import inf
from typing import Final

from kafkawire.sdk.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.sdk.protocol.negotiation import Negotiation
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = ["CHALLENGE_BYTES_MAX", "CONNECTION_EDGES", "ROUNDS_MAX", "ConnectionState", "Gate"]

#: Size of the largest challenge: the limit that Kafka's brokers apply to clients (`sasl.server.max.receive.size`). A
#: Kerberos token has at most 64 KiB.
CHALLENGE_BYTES_MAX = 512 * 1024

#: Maximum number of challenges in one login. Kerberos needs the most: four. Without a limit, a hostile broker could
#: continue forever.
ROUNDS_MAX = 16

#: The client logs in again after a fraction of the session that lies between these two, as Kafka's own client does.
_SESSION_SHARE_MIN = 0.85
_SESSION_SHARE_MAX = 0.95

#: How long after a login the next one may begin: a broker refuses another one within a second (KIP-368), and the rest
#: allows for clocks that differ in speed.
_LOGIN_INTERVAL_MS = 1_100

#: From this version of SaslHandshake on, SaslAuthenticate carries the tokens; in earlier versions, tokens have no
#: header.
_HANDSHAKE_VERSION_MIN = 1

#: Maximum number of characters that an error quotes from a broker's text.
_SHOWN_CHARACTERS = 200


class ConnectionState(Enum):
    """The state of a connection; the values of the first five serve to name the phase in which connecting failed."""

    RESOLVING = "dns"
    CONNECTING = "tcp"
    TLS = "tls"
    VERSIONS = "versions"
    AUTHENTICATION = "sasl"
    READY = "ready"
    REAUTHENTICATION = "re-authentication"

    @property
    def is_before_ready(self) -> bool:
        """Whether the network is connected, but the connection has not yet become ready."""
        return self in (ConnectionState.VERSIONS, ConnectionState.AUTHENTICATION)


#: The states that the network reports, in any order, since it may try several addresses and skip steps.
_OF_THE_NETWORK: Final = {
    ConnectionState.RESOLVING: "the name is looked up",
    ConnectionState.CONNECTING: "an address is tried",
    ConnectionState.TLS: "the TLS handshake begins",
}

#: The transitions of one connection. A connection that has failed, in any state, is not used again.
CONNECTION_EDGES: Final = Edges(
    "a connection",
    (ConnectionState.RESOLVING,),
    {
        **{
            state: {**_OF_THE_NETWORK, ConnectionState.VERSIONS: "the network has connected"}
            for state in _OF_THE_NETWORK
        },
        ConnectionState.VERSIONS: {
            ConnectionState.AUTHENTICATION: "the versions are known, and the broker wants a login",
            ConnectionState.READY: "the versions are known",
        },
        ConnectionState.AUTHENTICATION: {ConnectionState.READY: "the login succeeds"},
        ConnectionState.READY: {ConnectionState.REAUTHENTICATION: "the session is about to end"},
        ConnectionState.REAUTHENTICATION: {ConnectionState.READY: "the login succeeds"},
    },
    error=LocalProtocolError,
)


class Gate:
    """The state of one connection, and the next request that it must send.

    Args:
        negotiation: receives the broker's versions.
        authenticates: whether the connection must log in.

    Attributes:
        state: see `ConnectionState`.
        reauthenticate_at_ms: when to log in again; infinite if the session has no end.
        session_ends_ms: when the broker stops accepting requests; this is an estimate, but never later than the true
            time.
        wants_credentials: whether the connection is waiting for `authenticate`.
    """

    def __init__(self, negotiation: Negotiation, *, authenticates: bool) -> None:
        self.state = ConnectionState.RESOLVING
        self.reauthenticate_at_ms = inf
        self.session_ends_ms = inf
        self._negotiation = negotiation
        self._authenticates = authenticates
        self._authenticator: Authenticator | None = None
        self._asks_again = False
        self.wants_credentials = False
        # the state of the most recent login
        self._rounds: int
        self._began_ms: int
        self._share: float

    @property
    def is_shut(self) -> bool:
        """Whether the broker currently accepts only the gate's own requests."""
        return self._authenticator is not None or self.state.is_before_ready

    @property
    def wants_login(self) -> bool:
        """Whether the connection is waiting for its first `log_in`."""
        return self.state is ConnectionState.AUTHENTICATION and self._authenticator is None

    def report(self, state: ConnectionState) -> None:
        """Record the step that the network has reached: RESOLVING, CONNECTING or TLS.

        Raises:
            LocalProtocolError: the state is not one of these, or the gate was opened before.
        """
        if state not in _OF_THE_NETWORK:
            raise LocalProtocolError(f"expected RESOLVING, CONNECTING or TLS, got {state.name}")
        self._enter(state)

    def start(self) -> Message:
        """Return the first request; call this once the network is connected, including TLS.

        Raises:
            LocalProtocolError: the gate was opened before.
        """
        self._enter(ConnectionState.VERSIONS)
        return self._negotiation.request()

    def log_in(
        self, authenticator: Authenticator, now_ms: int, fraction: float, *, asks_again: bool = False
    ) -> Message:
        """Start a login, the first or a later one, and return its first request.

        Args:
            authenticator: an authenticator for this login only.
            now_ms: the current time, monotonic.
            fraction: a random number in [0, 1), which keeps connections opened at the same time from logging in again
                at the same time.
            asks_again: whether to wait for `authenticate` once the broker has accepted the mechanism; it answers all
                earlier requests first, so credentials may grow old.

        Raises:
            LocalProtocolError: the connection's state does not allow a login.
            RemoteProtocolError: the broker offers no known version of SASL.
        """
        if not self.wants_login and (self.state is not ConnectionState.READY or not self._authenticates):
            raise LocalProtocolError(f"a login cannot begin in the state {self.state.value!r}")
        for key, lowest in ((ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION_MIN), (ApiKey.SASL_AUTHENTICATE, 0)):
            api = APIS[key]
            if not self._negotiation.offers(api) or self._negotiation.version_for(api) < lowest:
                raise RemoteProtocolError(
                    f"the broker does not offer {api.name} in version {lowest} or later; does this port use SASL?"
                )
        if self.state is ConnectionState.READY:
            self._enter(ConnectionState.REAUTHENTICATION)
        self._authenticator = authenticator
        self._asks_again = asks_again
        self._rounds = 0
        self._began_ms = now_ms
        self._share = _SESSION_SHARE_MIN + (_SESSION_SHARE_MAX - _SESSION_SHARE_MIN) * fraction
        return SaslHandshakeRequest(authenticator.mechanism)

    def authenticate(self, authenticator: Authenticator, now_ms: int) -> Message:
        """Continue a login that asks again for its credentials, and return its next request.

        Args:
            authenticator: an authenticator for this login only; the one given to `log_in`, or a newer one.
            now_ms: the current time, monotonic.

        Raises:
            LocalProtocolError: the connection does not want credentials.
        """
        if not self.wants_credentials:
            raise LocalProtocolError(f"credentials are not wanted in the state {self.state.value!r}")
        self.wants_credentials = False
        self._authenticator = authenticator
        self._began_ms = now_ms
        return SaslAuthenticateRequest(authenticator.first_message())

    def receive(self, response: Message) -> Message | None:
        """Process the response to one of the gate's requests.

        Returns:
            The next request; None if the connection is ready, or is waiting for `log_in` or `authenticate`.

        Raises:
            BrokerError: the broker refuses the login.
            RemoteProtocolError: the broker breaks the protocol.
            LocalProtocolError: the gate did not request this response.
        """
        if isinstance(response, ApiVersionsResponse):
            return self._versions_known(response)
        if self._authenticator is not None:
            if isinstance(response, SaslHandshakeResponse):
                if response.error_code != ErrorCode.NONE:
                    raise BrokerError(response.error_code, self._handshake_refusal(response))
                if self._asks_again:
                    self.wants_credentials = True
                    return None
                return SaslAuthenticateRequest(self._authenticator.first_message())
            if isinstance(response, SaslAuthenticateResponse):
                return self._challenged(self._authenticator, response)
        raise LocalProtocolError(f"{type(response).__name__}: the gate did not request it")

    def _enter(self, state: ConnectionState) -> None:
        self.state = CONNECTION_EDGES.follow(self.state, state)

    def _versions_known(self, response: ApiVersionsResponse) -> Message | None:
        if not self._negotiation.receive(response):
            return self._negotiation.request()
        self._enter(ConnectionState.AUTHENTICATION if self._authenticates else ConnectionState.READY)
        return None

    def _challenged(self, authenticator: Authenticator, response: SaslAuthenticateResponse) -> Message | None:
        if response.error_code != ErrorCode.NONE:
            reason = f"{authenticator.mechanism}: {_printable(response.error_message or 'the broker gives no reason')}"
            raise BrokerError(response.error_code, reason)
        self._rounds += 1
        if len(response.auth_bytes) > CHALLENGE_BYTES_MAX:
            size = len(response.auth_bytes)
            raise RemoteProtocolError(
                f"the SASL challenge has {size} bytes, but at most {CHALLENGE_BYTES_MAX} are allowed"
            )
        answer = authenticator.respond(bytes(response.auth_bytes))
        if answer is None:
            self._authenticated(response.session_lifetime_ms)
            return None
        if self._rounds >= ROUNDS_MAX:
            raise RemoteProtocolError(f"the login is not complete after {ROUNDS_MAX} challenges")
        return SaslAuthenticateRequest(answer)

    def _authenticated(self, lifetime_ms: int) -> None:
        """Measure the session from the start of the login, slightly too early: the broker measures from its end."""
        self._authenticator = None
        self._enter(ConnectionState.READY)
        self.session_ends_ms = self._began_ms + lifetime_ms if lifetime_ms > 0 else inf
        # In a session that is shorter than the interval, requests wait for the next login.
        pause_ms = max(lifetime_ms * self._share, _LOGIN_INTERVAL_MS)
        self.reauthenticate_at_ms = self._began_ms + pause_ms if lifetime_ms > 0 else inf

    def _handshake_refusal(self, response: SaslHandshakeResponse) -> str:
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            if self.state is ConnectionState.REAUTHENTICATION:
                return "the broker does not accept another login on this connection now; it takes one per second"
            return "this broker listener does not use SASL"
        offered = ", ".join(sorted(response.mechanisms)) or "none"
        mechanism = self._authenticator.mechanism if self._authenticator is not None else "none"
        return f"the mechanism {mechanism} was refused; the broker offers {_printable(offered)}"


def _printable(text: str) -> str:
    """Return text from the broker in a form that is safe to show."""
    short = text[:_SHOWN_CHARACTERS]
    return "".join(character if character.isprintable() else "?" for character in short)
