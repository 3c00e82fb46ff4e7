"""The credentials that logins look up, before and after the broker has opened the stores that hold them.

A broker checks the security of its listeners before it opens its logs, and the stores come with the logs.
"""

from __future__ import annotations

from kafkawire.reference_broker.security.credentials import (
    ScramCredential,
    ScramCredentials,
    TokenCredential,
    TokenCredentials,
)

__all__ = ["CredentialsInUse"]


class CredentialsInUse:
    """Looks up credentials in the stores of the running broker.

    Attributes:
        scram: the store of SCRAM credentials; None while there is none, and then no user is known.
        tokens: the store of delegation tokens; None while there is none.
    """

    def __init__(self) -> None:
        self.scram: ScramCredentials | None = None
        self.tokens: TokenCredentials | None = None

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        """See `ScramCredentials`."""
        return None if self.scram is None else self.scram.scram_credential(mechanism, username)

    def token_credential(self, token_id: str) -> TokenCredential | None:
        """See `TokenCredentials`."""
        return None if self.tokens is None else self.tokens.token_credential(token_id)
