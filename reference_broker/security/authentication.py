"""The login of one connection, without I/O: which request may come next, and how long a login lasts.

    ApiVersions ─▶ SaslHandshake ─▶ tokens ─▶ complete ─▶ SaslHandshake ─▶ tokens ─▶ complete      (KIP-368)

A connection drives it: `requests/session_login.py` decodes its requests, and answers them. Tokens come in
SaslAuthenticate, or bare if the handshake was in version 0.

Source: Apache Kafka, `SaslServerAuthenticator`, `KafkaChannel`; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from kafkawire.reference_broker.security.sasl.mechanism import (
    Exchange,
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
    NewExchange,
)
from kafkawire.sdk.protocol.java_order import java_order, string_hash
from kafkawire.sdk.states import Edges

__all__ = [
    "LOGIN_EDGES",
    "REAUTHENTICATION_INTERVAL_MS",
    "Authentication",
    "Challenge",
    "LoginState",
    "OfferedMechanism",
    "UnsupportedMechanism",
]

#: A connection may begin another login this long after it began the last one, as in Kafka.
REAUTHENTICATION_INTERVAL_MS: Final = 1_000


class LoginState(Enum):
    """Where a connection is in its login."""

    #: no request has come
    INITIAL = "initial"
    #: ApiVersions in a version or form that is refused has come; it may come again
    VERSIONS_OR_HANDSHAKE = "versions or handshake"
    #: ApiVersions has been answered
    HANDSHAKE = "handshake"
    #: the mechanism is chosen, and tokens are exchanged
    AUTHENTICATE = "authenticate"
    #: the client is logged in
    COMPLETE = "complete"
    #: a client that is logged in has begun another login
    REAUTHENTICATE = "reauthenticate"
    #: the other login has another mechanism, which is refused with the next request
    OTHER_MECHANISM = "other mechanism"
    #: the login has failed; the connection will be closed
    FAILED = "failed"


_S = LoginState

LOGIN_EDGES: Final = Edges(
    "a login",
    (_S.INITIAL,),
    {
        _S.INITIAL: {
            _S.VERSIONS_OR_HANDSHAKE: "ApiVersions, refused",
            _S.HANDSHAKE: "ApiVersions",
            _S.AUTHENTICATE: "SaslHandshake",
            _S.FAILED: "unsupported mechanism, other request",
        },
        _S.VERSIONS_OR_HANDSHAKE: {
            _S.VERSIONS_OR_HANDSHAKE: "ApiVersions, refused",
            _S.HANDSHAKE: "ApiVersions",
            _S.AUTHENTICATE: "SaslHandshake",
            _S.FAILED: "unsupported mechanism, other request",
        },
        _S.HANDSHAKE: {
            _S.AUTHENTICATE: "SaslHandshake",
            _S.FAILED: "unsupported mechanism, other request",
        },
        _S.AUTHENTICATE: {
            _S.AUTHENTICATE: "a token, and more are needed",
            _S.COMPLETE: "the last token",
            _S.FAILED: "wrong credentials, other request",
        },
        _S.COMPLETE: {_S.REAUTHENTICATE: "SaslHandshake before the session ends"},
        _S.REAUTHENTICATE: {
            _S.AUTHENTICATE: "the same mechanism",
            _S.OTHER_MECHANISM: "another mechanism",
            _S.FAILED: "unsupported mechanism",
        },
        _S.OTHER_MECHANISM: {_S.FAILED: "any request"},
    },
)


class OfferedMechanism(NamedTuple):
    """A mechanism that a listener offers.

    Attributes:
        new_exchange: begins a login.
        max_reauth_ms: how long a login lasts; 0 for no limit.
    """

    new_exchange: NewExchange
    max_reauth_ms: int


class UnsupportedMechanism(LoginRefused):
    """The client asks for a mechanism that the listener does not offer."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(f"Unsupported SASL mechanism {mechanism:.100}")
        self.args = (mechanism,)


class Challenge(NamedTuple):
    """The answer to a token.

    Attributes:
        token: the answer, which may be empty.
        lifetime_ms: how long the login lasts, if it is complete; 0 for no limit, or if it is not complete.
    """

    token: bytes
    lifetime_ms: int


class Authentication:
    """The logins of one connection.

    Args:
        mechanisms: the mechanisms that its listener offers, keyed by name.

    Attributes:
        state: see `LoginState`.
        identity: the identity of the client; None until its first login is complete.
        wraps_tokens: whether tokens come in SaslAuthenticate.
        session_ends_ms: the time at which a login ends, on a clock that does not jump; None for never.
    """

    def __init__(self, mechanisms: Mapping[str, OfferedMechanism]) -> None:
        self._mechanisms = mechanisms
        self._exchange: Exchange | None = None
        self._mechanism = self._other_mechanism = ""
        self._began_again_ms: int | None = None
        self.state = LoginState.INITIAL
        self.identity: Identity | None = None
        self.wraps_tokens = False
        self.session_ends_ms: int | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms, in the order of Kafka's responses."""
        return java_order(self._mechanisms, string_hash)

    @property
    def is_complete(self) -> bool:
        """Whether the client is logged in, and no other login is in progress."""
        return self.state is LoginState.COMPLETE

    @property
    def awaits_token(self) -> bool:
        """Whether a token comes next."""
        return self.state is LoginState.AUTHENTICATE

    def versions_answered(self, *, is_accepted: bool) -> None:
        """Record that ApiVersions has been answered.

        Args:
            is_accepted: whether the answer is not an error.
        """
        self._move(LoginState.HANDSHAKE if is_accepted else LoginState.VERSIONS_OR_HANDSHAKE)

    @property
    def allows_versions(self) -> bool:
        """Whether ApiVersions may come next."""
        return self.state in (LoginState.INITIAL, LoginState.VERSIONS_OR_HANDSHAKE)

    def choose(self, mechanism: str, *, wraps_tokens: bool) -> None:
        """Begin the exchange of tokens.

        Args:
            mechanism: the mechanism that the client asks for.
            wraps_tokens: whether it will send them in SaslAuthenticate.

        Raises:
            UnsupportedMechanism: the listener does not offer the mechanism.
        """
        self.wraps_tokens = wraps_tokens
        if mechanism not in self._mechanisms:
            raise UnsupportedMechanism(mechanism)
        if self.identity is not None and mechanism != self._mechanism:
            self._other_mechanism = mechanism
            self._move(LoginState.OTHER_MECHANISM)
            return
        self._mechanism = mechanism
        self._exchange = self._mechanisms[mechanism].new_exchange()
        self._move(LoginState.AUTHENTICATE)

    def take_token(self, token: bytes, wall_ms: int, steady_ms: int) -> Challenge:
        """Take a token from the client, and return the answer.

        Args:
            token: the token.
            wall_ms: the time in ms since the epoch.
            steady_ms: the time in ms on a clock that does not jump.

        Raises:
            LoginAborted: the connection must be closed without an answer.
            LoginRefused: the login has failed.
        """
        exchange = self._exchange
        assert exchange is not None, "a mechanism has been chosen"
        try:
            answer = exchange.respond(token, wall_ms)
        except InvalidCredentials as error:
            if self.identity is None:
                raise
            raise LoginRefused(error.detail_of_reauthentication, str(error)) from error
        except LoginRefused:
            raise
        except Exception as error:
            # A text of the error might show a secret, so only its type is passed on.
            raise LoginAborted(f"{self._mechanism} failed with {type(error).__name__}") from error
        identity = exchange.identity
        if identity is None:
            self._move(LoginState.AUTHENTICATE)
            return Challenge(answer, 0)
        former = self.identity
        if former is not None and former.principal != identity.principal:
            before, after = former.principal, identity.principal
            raise LoginRefused(
                f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
                f"{after.kind}.{after.name}"
            )
        self.identity, self._exchange = identity, None
        lifetime_ms = self._lifetime_ms(identity, wall_ms)
        self.session_ends_ms = None if lifetime_ms is None else steady_ms + lifetime_ms
        self._move(LoginState.COMPLETE)
        return Challenge(answer, lifetime_ms or 0)

    def refuse_other_mechanism(self) -> LoginRefused:
        """Return why a client that is logged in cannot log in with another mechanism."""
        return LoginRefused(
            f"SASL mechanism '{self._other_mechanism}' requested by client is not supported for re-authentication of "
            f"mechanism '{self._mechanism}'"
        )

    def fail(self) -> None:
        """Record that the login has failed."""
        if self.state is not LoginState.FAILED:
            self._move(LoginState.FAILED)

    def begin_again(self, steady_ms: int) -> bool:
        """Begin another login if SaslHandshake may begin one now; otherwise, it is a request like others.

        Args:
            steady_ms: the time in ms on a clock that does not jump.
        """
        began_ms = self._began_again_ms
        if self.session_ends_ms is None:
            return False
        if began_ms is not None and steady_ms - began_ms < REAUTHENTICATION_INTERVAL_MS:
            return False
        self._began_again_ms = steady_ms
        self._move(LoginState.REAUTHENTICATE)
        return True

    def has_expired(self, steady_ms: int) -> bool:
        """Return whether the login has ended, so that the connection must be closed at its next request."""
        return self.session_ends_ms is not None and steady_ms > self.session_ends_ms

    def _lifetime_ms(self, identity: Identity, wall_ms: int) -> int | None:
        """Return how long a login lasts from now; None for no limit."""
        limits = []
        if identity.expires_ms is not None:
            limits.append(max(identity.expires_ms - wall_ms, 0))
        if max_reauth_ms := self._mechanisms[self._mechanism].max_reauth_ms:
            limits.append(max_reauth_ms)
        return min(limits, default=None)

    def _move(self, state: LoginState) -> None:
        self.state = LOGIN_EDGES.follow(self.state, state)
