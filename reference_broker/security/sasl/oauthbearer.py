"""The broker's side of OAUTHBEARER: a bearer token in the client's message, which a validator accepts or rejects.

A rejected token is answered with JSON; the client acknowledges it with a single byte, or tries another token.

Source: RFC 7628, KIP-255, KIP-342; `OAuthBearerSaslServer` and `OAuthBearerClientInitialResponse` in Apache Kafka,
whose texts these are.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.security.sasl.mechanism import (
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
)

__all__ = [
    "INSUFFICIENT_SCOPE",
    "INVALID_TOKEN",
    "OAUTHBEARER",
    "TOKENS_MAX",
    "BearerToken",
    "OAuthBearerExchange",
    "TokenRejected",
    "TokenValidator",
]

OAUTHBEARER = "OAUTHBEARER"

#: The statuses that validators report (RFC 6750 §3.1).
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"

#: The number of tokens that a client may try in one login. Kafka has no limit, but its clients send only one.
TOKENS_MAX: Final = 10

_SEPARATOR = "\x01"
_ACKNOWLEDGEMENT = b"\x01"
_AUTH = "auth"

_SASL_NAME = r"(?:[\x01-+\--<>-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+"
_MESSAGE = re.compile(
    f"n,(?:a=(?P<identity>{_SASL_NAME}))?,{_SEPARATOR}(?P<pairs>(?:{_PAIR}{_SEPARATOR})*){_SEPARATOR}"
)
_BEARER = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class BearerToken(NamedTuple):
    """An accepted token.

    Attributes:
        name: the name of the principal.
        expires_ms: the time in ms since the epoch at which the token expires.
    """

    name: str
    expires_ms: int


class TokenRejected(Exception):
    """A token is not accepted.

    Args:
        reason: why, for the broker's log; without the token.
        status: `INVALID_TOKEN` or `INSUFFICIENT_SCOPE`.
        scope: the scope that is required, as shown to the client; None if the scope is not the reason.
    """

    def __init__(self, reason: str, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(reason, status, scope)
        self.reason = reason
        self.status = status
        self.scope = scope

    def __str__(self) -> str:
        return self.reason


class TokenValidator(Protocol):
    """Decides which tokens are accepted."""

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Return what an acceptable token says.

        Raises:
            TokenRejected: the token is not acceptable.
            LoginAborted: the token is damaged in a way in which Kafka closes the connection.
        """
        ...


class OAuthBearerExchange:
    """One login with a token.

    Args:
        validator: decides which tokens are accepted.
    """

    def __init__(self, validator: TokenValidator) -> None:
        self.identity: Identity | None = None
        self._validator = validator
        self._rejection: str | None = None
        self._tokens = 0

    def respond(self, response: bytes, now_ms: int) -> bytes:
        """Check a token, or end the login after a rejected token; see `Exchange`."""
        if self.identity is not None:
            self.identity = None
            raise LoginAborted("OAUTHBEARER: a message after the login was complete")
        rejection, self._rejection = self._rejection, None
        if rejection is not None and response == _ACKNOWLEDGEMENT:
            raise LoginRefused(rejection)
        self._tokens += 1
        if self._tokens > TOKENS_MAX:
            raise InvalidCredentials(OAUTHBEARER, f"OAUTHBEARER: more than {TOKENS_MAX} tokens")
        authorization_id, text = _read(response)
        try:
            token = self._validator.validate(text, now_ms)
        except TokenRejected as error:
            self._rejection = _rejection(error)
            return self._rejection.encode()
        if authorization_id not in ("", token.name):
            raise LoginRefused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({token.name})"
            )
        self.identity = Identity(KafkaPrincipal(USER, token.name), token.expires_ms)
        return b""


def _read(response: bytes) -> tuple[str, str]:
    """Return the authorization id and the token in a client's message; every extension is accepted and ignored."""
    found = _MESSAGE.fullmatch(response.decode("utf-8", "replace"))
    if found is None:
        raise InvalidCredentials(OAUTHBEARER, "OAUTHBEARER: the message does not follow RFC 7628")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR)[:-1])
    if _AUTH not in pairs:
        raise InvalidCredentials(OAUTHBEARER, "OAUTHBEARER: the message has no token")
    bearer = _BEARER.fullmatch(pairs[_AUTH])
    if bearer is None:
        raise InvalidCredentials(OAUTHBEARER, "OAUTHBEARER: the token does not follow RFC 6750")
    if bearer["scheme"].lower() != "bearer":
        raise LoginAborted("OAUTHBEARER: the scheme is not Bearer")
    return found["identity"] or "", bearer["token"]


def _rejection(error: TokenRejected) -> str:
    """Return the JSON for a client, with Kafka's spaces."""
    scope = "" if error.scope is None else f', "scope":"{error.scope}"'
    return f'{{"status":"{error.status}"{scope}}}'
