"""The interface of every SASL mechanism: its name, a first message, and a response to each challenge.

An authenticator serves one login. A `Login` creates it and passes it all external input (a token, a random nonce, the
time).

Source: RFC 4422; `SaslClientAuthenticator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from kafkawire.sdk.errors import KafkaWireError

__all__ = ["Authenticator", "CredentialsUnavailable", "Login"]


class CredentialsUnavailable(KafkaWireError):
    """The source of tokens, tickets or other credentials failed; another attempt may succeed.

    If it raised an error, that is the cause, but the message does not quote it.
    """

    retriable = True


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
        """Respond to a challenge from the broker; its final message, often empty, is treated as a challenge too.

        Returns:
            The message to send next; None when the login is complete and the broker's final message is valid.

        Raises:
            BrokerError: the broker refuses the login.
            RemoteProtocolError: the broker violates the mechanism, or fails to prove its identity.
        """
        ...


#: Creates the authenticator for one login to the named host; called for each connection and each re-authentication.
Login = Callable[[str], Awaitable[Authenticator]]
