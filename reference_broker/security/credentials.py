"""What the broker knows about the credentials of its clients; the stores in `metadata` and `cluster` provide it.

Source: Apache Kafka, `CredentialProvider`, `ScramCredential`, `DelegationTokenCache`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.sdk.protocol.scram import ScramCredential

__all__ = ["ScramCredential", "ScramCredentials", "TokenCredential", "TokenCredentials"]


class ScramCredentials(Protocol):
    """Looks up the SCRAM credentials of users."""

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        """Return a user's credential for SCRAM-SHA-256 or SCRAM-SHA-512; None if there is none."""
        ...


class TokenCredential(NamedTuple):
    """A delegation token with which clients can log in.

    Attributes:
        owner: the principal as which the client is logged in.
        hmac: the text that serves as the password: the token's HMAC in base64.
        expires_ms: the time in ms since the epoch at which the token expires.
    """

    owner: KafkaPrincipal
    hmac: str
    expires_ms: int

    def __repr__(self) -> str:
        return f"TokenCredential(owner={str(self.owner)!r}, hmac=<hidden>, expires_ms={self.expires_ms})"


class TokenCredentials(Protocol):
    """Looks up delegation tokens."""

    def token_credential(self, token_id: str) -> TokenCredential | None:
        """Return a delegation token that has not been removed; None if there is none."""
        ...
