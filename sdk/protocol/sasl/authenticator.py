"""What every SASL mechanism gives to the connection: its name, a first message, an answer to each challenge.

An authenticator serves one login. Whatever it needs from outside (a token, a random nonce, the time) it is given when
it is made, by a `Login`.

Source: RFC 4422; `SaslClientAuthenticator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

__all__ = ["Authenticator", "Login"]


class Authenticator(Protocol):
    """The client's side of one login."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism, as in `SaslHandshakeRequest`."""
        ...

    def first_message(self) -> bytes:
        """Return the message that opens the login."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Answer the broker, whose last word is a challenge too, often an empty one.

        Returns:
            What to send next; None when the login is complete and the broker's last word is as it must be.

        Raises:
            BrokerError: the broker refuses the login.
            RemoteProtocolError: the broker breaks the rules of the mechanism, or does not prove what it must.
        """
        ...


#: Makes the authenticator of one login at the host of this name; called again for each connection and each
#: re-authentication.
Login = Callable[[str], Awaitable[Authenticator]]
