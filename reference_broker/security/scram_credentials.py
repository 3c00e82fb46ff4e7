"""The SCRAM credentials of users: the form in which they are stored, and how they are looked up.

    SCRAM-SHA-256   salt=…,stored_key=…,server_key=…,iterations=4096       in base64, among the user's configurations

Source: `ScramCredentialUtils` in Apache Kafka.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Final

from kafkawire.reference_broker.metadata.entity_configs import EntityConfigStore, user_entity
from kafkawire.reference_broker.security.credentials import ScramCredential
from kafkawire.sdk.protocol.tables.enums import ScramMechanism

__all__ = ["MECHANISMS", "StoredScramCredentials", "credential_text", "parse_credential"]

_log = logging.getLogger("kafkawire.broker")

#: The name of each mechanism, under which a user's configurations contain the credential.
MECHANISMS: Final[Mapping[int, str]] = {each: each.name.replace("_", "-") for each in ScramMechanism}

_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


def credential_text(credential: ScramCredential) -> str:
    """Return the form in which a credential is stored."""
    secrets = (base64.b64encode(each).decode() for each in credential[:3])
    values = (*secrets, str(credential.iterations))
    return ",".join(f"{name}={value}" for name, value in zip(_FIELDS, values, strict=True))


def parse_credential(text: str) -> ScramCredential:
    """Return the credential in a text.

    Raises:
        ValueError: the text is not that of a credential; the error does not contain it.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not name or not separator:
            raise ValueError("a part of the credential is not of the form name=value")
        found[name] = value
    if set(found) != set(_FIELDS):
        raise ValueError(f"the credential must consist of {', '.join(_FIELDS)}")
    try:
        salt, stored_key, server_key = (base64.b64decode(found[name], validate=True) for name in _FIELDS[:3])
    except binascii.Error:
        raise ValueError("the credential is not in base64") from None
    digits = found[_FIELDS[3]]
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError("the number of iterations is not a number")
    return ScramCredential(salt, stored_key, server_key, int(digits))


class StoredScramCredentials:
    """Looks up the credentials in a store; see `ScramCredentials`.

    Args:
        store: has the credentials.
    """

    def __init__(self, store: EntityConfigStore) -> None:
        self._store = store

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        text = self._store.of(user_entity(username)).get(mechanism)
        if text is None:
            return None
        try:
            return parse_credential(text)
        except ValueError as error:
            _log.error("the %s credential of user %r cannot be used: %s", mechanism, username, error)
            return None
