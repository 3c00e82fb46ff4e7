"""No credential is found until the broker has opened its stores; after that, they are queried.

Method: use stores that return what they are asked for.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.security.credentials import ScramCredential, TokenCredential
from kafkawire.reference_broker.security.credentials_in_use import CredentialsInUse


class Stores:
    """Both stores."""

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        return ScramCredential(mechanism.encode(), username.encode(), b"", 4_096)

    def token_credential(self, token_id: str) -> TokenCredential | None:
        return TokenCredential(KafkaPrincipal(USER, token_id), "", 0)


def test_stores() -> None:
    found = CredentialsInUse()
    assert found.scram_credential("SCRAM-SHA-256", "alice") is None
    assert found.token_credential("token") is None
    found.scram = found.tokens = Stores()
    assert found.scram_credential("SCRAM-SHA-256", "alice") == (b"SCRAM-SHA-256", b"alice", b"", 4_096)
    assert found.token_credential("token") == (KafkaPrincipal(USER, "token"), "", 0)
