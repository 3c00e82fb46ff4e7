"""Credentials can be logged and shown in errors without revealing a secret.

Method: look at the text of each of them.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.credentials import ScramCredential, TokenCredential


@pytest.mark.parametrize(
    ("credential", "text"),
    [
        (ScramCredential(b"s3cret", b"s3cret", b"s3cret", 4096), "ScramCredential(<hidden>)"),
        (
            TokenCredential(KafkaPrincipal("User", "alice"), "s3cret", 7),
            "TokenCredential(owner='User:alice', hmac=<hidden>, expires_ms=7)",
        ),
    ],
)
def test_secrets_are_hidden(credential: object, text: str) -> None:
    assert repr(credential) == str(credential) == text
