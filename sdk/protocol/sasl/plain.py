"""PLAIN: the user name and the password in clear text, for connections with TLS.

Source: RFC 4616; `PlainSaslServer` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret

__all__ = ["PlainAuthenticator"]


class PlainAuthenticator:
    """One login with a password.

    Args:
        username: the user who logs in.
        password: the user's password.

    Raises:
        ConfigurationError: the name or the password is empty, or contains a NUL character, which separates them on the
            wire.
    """

    mechanism = "PLAIN"

    def __init__(self, username: str, password: Secret) -> None:
        for option, text in (("sasl_username", username), ("sasl_password", password.reveal())):
            if not text or "\0" in text:
                raise ConfigurationError(option, text, "must not be empty or contain a NUL character")
        self._username = username
        self._password = password

    def first_message(self) -> bytes:
        return f"\0{self._username}\0{self._password.reveal()}".encode()

    def respond(self, challenge: bytes) -> None:
        """Ignore the broker's final message, as other clients do; it is usually empty."""
