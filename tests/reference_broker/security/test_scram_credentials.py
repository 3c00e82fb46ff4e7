"""Credentials are stored in Kafka's form.

Method: compare with the text that Kafka writes; damage the text.
"""

from __future__ import annotations

import logging

import pytest

from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity
from kafkawire.reference_broker.security.credentials import ScramCredential
from kafkawire.reference_broker.security.scram_credentials import (
    MECHANISMS,
    StoredScramCredentials,
    credential_text,
    parse_credential,
)
from kafkawire.sdk.protocol.tables.enums import ScramMechanism
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
TEXT = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"


def test_text() -> None:
    assert credential_text(CREDENTIAL) == TEXT
    assert parse_credential(TEXT) == CREDENTIAL
    assert parse_credential(",".join(reversed(TEXT.split(",")))) == CREDENTIAL
    assert {kind: MECHANISMS[kind] for kind in ScramMechanism} == {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt",
        TEXT.replace("salt=", ""),
        f"{TEXT},more=1",
        TEXT.removesuffix(",iterations=4096"),
        TEXT.replace("c2FsdA==", "c2FsdA"),
        TEXT.replace("c2FsdA==", "secret!"),
        TEXT.replace("4096", "many"),
        TEXT.replace("4096", "²"),
        TEXT.replace("4096", ""),
    ],
)
def test_damaged_text(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match=r"credential|iterations") as refused:
        parse_credential(text)
    assert "secret" not in str(refused.value)
    store = KeptEntityConfigs()
    store.set(ConfigEntity("alice"), **{"SCRAM-SHA-256": text})
    with caplog.at_level(logging.ERROR):
        assert StoredScramCredentials(store).scram_credential("SCRAM-SHA-256", "alice") is None
    assert "credential of user 'alice' cannot be used" in caplog.text
    assert "secret" not in caplog.text


def test_look_up() -> None:
    store = KeptEntityConfigs()
    credentials = StoredScramCredentials(store)
    store.set(ConfigEntity("alice"), **{"SCRAM-SHA-256": TEXT})
    store.set(ConfigEntity("alice", "bob"), **{"SCRAM-SHA-512": TEXT})
    assert credentials.scram_credential("SCRAM-SHA-256", "alice") == CREDENTIAL
    assert credentials.scram_credential("SCRAM-SHA-512", "alice") is None
    assert credentials.scram_credential("SCRAM-SHA-256", "bob") is None
