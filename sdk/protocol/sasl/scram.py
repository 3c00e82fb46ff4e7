"""Log in with SCRAM-SHA-256 or SCRAM-SHA-512: the password is never sent, and the broker proves its identity.

`kafkawire.sdk.protocol.scram` computes the messages; this module exchanges them in order.

Source: RFC 5802, RFC 7677; `ScramSaslClient` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.scram import ScramClient
from kafkawire.sdk.secret import Secret

__all__ = ["ScramAuthenticator"]


class ScramAuthenticator:
    """One login with a password; only proofs of it are sent.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        username: the user who logs in, or the id of a delegation token.
        password: the user's password, or the token's HMAC.
        nonce: printable ASCII without commas, random and used once.
        is_token: whether this is a delegation token.

    Raises:
        ConfigurationError: the mechanism is unknown, or a value cannot be used.
    """

    def __init__(self, mechanism: str, username: str, password: Secret, nonce: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism
        extensions = {"tokenauth": "true"} if is_token else None
        self._client = ScramClient(mechanism, username, password.reveal(), nonce, extensions)
        self._challenges = 0

    def first_message(self) -> bytes:
        return self._client.first_message()

    def respond(self, challenge: bytes) -> bytes | None:
        """Prove knowledge of the password, then check that the broker knows it too."""
        self._challenges += 1
        if self._challenges == 1:
            return self._client.receive_first(challenge)
        if self._challenges == 2:
            self._client.receive_final(challenge)
            return None
        raise RemoteProtocolError(f"{self.mechanism}: the broker sent a challenge after the login was complete")
