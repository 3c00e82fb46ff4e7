"""Delegation tokens as an admin returns them, and the arguments of the methods about them.

A token is a credential that expires. A client logs in with it through SASL/SCRAM: `sasl_username` is the token's id,
`sasl_password` its HMAC. Any program that has the HMAC can log in as the token's owner.

Source: KIP-48, KIP-373 (tokens for other principals).
"""

import base64
import binascii
from typing import NamedTuple

from kafkawire.sdk.client.arguments import checked_text, is_several
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.secret import HIDDEN, Secret

__all__ = ["DelegationToken", "Principal", "checked_hmac", "checked_principal", "checked_principals"]


class DelegationToken(NamedTuple):
    """A delegation token; times are in ms since the epoch.

    Attributes:
        token_id: the user name with which clients log in.
        hmac: the password with which clients log in; `reveal()` returns it.
        owner: the principal for which the token stands: `User:alice`.
        requester: the principal that created it; the owner if the broker does not say (before Apache Kafka 3.3).
        renewers: other principals that may renew the token and expire it.
        issue_timestamp_ms: when the token was created.
        expiry_timestamp_ms: when the token expires, unless it is renewed.
        max_timestamp_ms: the time beyond which the token cannot be renewed.
    """

    token_id: str
    hmac: Secret
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


class Principal(NamedTuple):
    """A principal in a request.

    Attributes:
        kind: its type, usually `User`.
        name: its name.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def checked_principal(what: str, given: object) -> Principal:
    """Check and return a principal.

    Raises:
        LocalProtocolError: the value is not text of the form `User:alice`.
    """
    kind, colon, name = checked_text(what, given).partition(":")
    if not (kind and colon and name):
        raise LocalProtocolError(f"{what}: expected a principal such as User:alice, got {quoted(given, 100)}")
    return Principal(kind, name)


def checked_principals(what: str, given: object) -> list[Principal]:
    """Check and return principals.

    Raises:
        LocalProtocolError: the value is not an iterable of principals.
    """
    if not is_several(given):
        raise LocalProtocolError(f"{what}: expected principals such as ['User:alice'], got {quoted(given, 100)}")
    return [checked_principal(what, each) for each in given]


def checked_hmac(given: object) -> bytes:
    """Return the bytes of a token's HMAC.

    Args:
        given: a token, its HMAC as a `Secret` or as text in base64, or the bytes themselves.

    Raises:
        LocalProtocolError: the value is none of these; the error does not show it.
    """
    if isinstance(given, DelegationToken):
        given = given.hmac
    if isinstance(given, Secret):
        given = given.reveal()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, str):
        try:
            return base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise LocalProtocolError(f"hmac: expected base64, got other text ({HIDDEN})") from None
    raise LocalProtocolError(f"hmac: expected a DelegationToken or its hmac, got {type(given).__name__}")
