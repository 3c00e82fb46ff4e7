"""The broker's side of PLAIN: a name and a password in clear text, compared with those in the listener's JAAS options.

Source: RFC 4616; `PlainSaslServer` and `PlainServerCallbackHandler` in Apache Kafka, whose texts these are.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.security.sasl.mechanism import Identity, LoginAborted, LoginRefused
from kafkawire.sdk.secret import Secret

__all__ = ["PLAIN", "PlainExchange", "passwords_in"]

PLAIN = "PLAIN"

#: The options of PlainLoginModule that contain passwords of clients: `user_alice`.
_USER_PREFIX = "user_"

#: Authorization id, name and password. Kafka stops looking for more parts after one too many.
_PARTS = 3


class PlainExchange:
    """One login with a name and a password.

    Args:
        passwords: the passwords of the users, keyed by name.
    """

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self.identity: Identity | None = None
        self._passwords = passwords

    def respond(self, response: bytes, now_ms: int) -> bytes:
        """Check the only message of the client; see `Exchange`."""
        if self.identity is not None:
            raise LoginAborted("PLAIN: a message after the login was complete")
        parts = response.decode("utf-8", "replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
        authorization_id, name, password = parts
        if not name:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        # The comparison is made for unknown users, too, and takes the same time.
        is_equal = hmac.compare_digest(password.encode(), (expected or Secret(password)).reveal().encode())
        if expected is None or not is_equal:
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(KafkaPrincipal(USER, name))
        return b""


def passwords_in(options: Mapping[str, str]) -> dict[str, Secret]:
    """Return the passwords of the users in the options of PlainLoginModule, keyed by name."""
    return {
        name.removeprefix(_USER_PREFIX): Secret(password)
        for name, password in options.items()
        if name.startswith(_USER_PREFIX)
    }
