"""The interface of the broker's side of a SASL mechanism: a challenge for each response, then an identity.

An exchange serves one login, and does no I/O: whatever it needs to look up is in memory. The counterpart of a client
is in `kafkawire.sdk.protocol.sasl`.

Source: RFC 4422; `SaslServerAuthenticator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal

__all__ = ["Exchange", "Identity", "LoginRefused", "NewExchange"]


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
        super().__init__(reason or detail)
        self.detail = detail


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
