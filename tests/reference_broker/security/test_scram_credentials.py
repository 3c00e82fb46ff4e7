"""Credentials are computed as in RFC 5802, and stored in Kafka's form.

Method: compare with the client's implementation, and with the text that Kafka writes; damage the text.
"""

from __future__ import annotations

import base64
import logging

import pytest

from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity
from kafkawire.reference_broker.security.credentials import ScramCredential
from kafkawire.reference_broker.security.scram_credentials import (
    MECHANISMS,
    StoredScramCredentials,
    credential_of,
    credential_text,
    parse_credential,
)
from kafkawire.sdk.protocol.scram import make_credential, salted_password
from kafkawire.sdk.protocol.tables.enums import ScramMechanism
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
TEXT = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_computation(mechanism: str) -> None:
    salted = salted_password(mechanism, "pencil", b"salt", 4096)
    assert credential_of(mechanism, b"salt", salted, 4096) == make_credential(mechanism, "pencil", b"salt", 4096)


def test_an_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password("SCRAM-SHA-256", "pencil", salt, 4096)
    credential = credential_of("SCRAM-SHA-256", salt, salted, 4096)
    assert base64.b64encode(credential.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(credential.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


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
