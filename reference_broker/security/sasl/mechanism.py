"""The interface of the broker's side of a SASL mechanism: a challenge for each response, then an identity.

An exchange serves one login, and does no I/O: whatever it needs to look up is in memory. The counterpart of a client
is in `kafkawire.sdk.protocol.sasl`.

A failed login ends in one of three ways, as in Kafka: with a text of the mechanism (`LoginRefused`), with the same text
for everything that a client could use to find users or guess passwords (`InvalidCredentials`), or without a response
(`LoginAborted`).

Source: RFC 4422; `SaslServerAuthenticator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal

__all__ = ["Exchange", "Identity", "InvalidCredentials", "LoginAborted", "LoginRefused", "NewExchange"]


class Identity(NamedTuple):
    """The result of a successful login.

    Attributes:
        principal: the identity of the client.
        expires_ms: the time in ms since the epoch at which the credential expires; None if it does not expire.
        is_token: whether the client logged in with a delegation token.
    """

    principal: KafkaPrincipal
    expires_ms: int | None = None
    is_token: bool = False


class LoginRefused(Exception):
    """The client is refused.

    Args:
        detail: a text for the client that reveals neither secrets nor whether a user exists.
        reason: why, for the broker's log; it contains no secrets either.
    """

    def __init__(self, detail: str, reason: str = "") -> None:
        super().__init__(detail, reason)
        self.detail = detail
        self.reason = reason or detail

    def __str__(self) -> str:
        return self.reason


class InvalidCredentials(LoginRefused):
    """The client is refused with Kafka's text for wrong credentials, which does not depend on the reason.

    Args:
        mechanism: the name of the mechanism.
        reason: why, for the broker's log.
    """

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(_invalid_credentials("authentication", mechanism), reason)
        self.args = mechanism, reason
        #: The text for a client that has logged in before on the same connection.
        self.detail_of_reauthentication = _invalid_credentials("re-authentication", mechanism)


class LoginAborted(LoginRefused):
    """The connection is closed without a response, as Kafka does if a mechanism fails in an unexpected way.

    Args:
        reason: why, for the broker's log.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("", reason)
        self.args = (reason,)


class Exchange(Protocol):
    """One login.

    Attributes:
        identity: the identity of the client once it has proved it; None until then.
    """

    identity: Identity | None

    def respond(self, response: bytes, now_ms: int) -> bytes:
        """Return the challenge that follows a client's response, which may be empty, as may the challenge.

        Args:
            response: the token that the client sent.
            now_ms: the time in ms since the epoch.

        Raises:
            LoginRefused: the login has failed.
        """
        ...


#: Begins a login.
NewExchange = Callable[[], Exchange]


def _invalid_credentials(event: str, mechanism: str) -> str:
    return f"Authentication failed during {event} due to invalid credentials with SASL mechanism {mechanism}"
