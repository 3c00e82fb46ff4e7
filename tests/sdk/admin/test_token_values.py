"""Principals and HMACs are checked before a request is sent, and no HMAC is ever shown.

Method: check tables of arguments.
"""

from __future__ import annotations

import base64

import pytest

from kafkawire.sdk.admin.token_values import (
    DelegationToken,
    Principal,
    checked_hmac,
    checked_principal,
    checked_principals,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.secret import Secret

HMAC = bytes(range(64))
TEXT = base64.b64encode(HMAC).decode()
TOKEN = DelegationToken("id", Secret(TEXT), "User:alice", "User:alice", (), 1, 2, 3)


@pytest.mark.parametrize(
    ("given", "kind", "name"), [("User:alice", "User", "alice"), ("User:a:b", "User", "a:b"), ("Group:g", "Group", "g")]
)
def test_principals(given: str, kind: str, name: str) -> None:
    assert checked_principal("owner", given) == Principal(kind, name)
    assert str(Principal(kind, name)) == given
    assert checked_principals("renewers", (given,)) == [Principal(kind, name)]


@pytest.mark.parametrize("given", ["alice", "User:", ":alice", "", b"User:alice", None, 1, ("User", "alice")])
def test_what_is_no_principal(given: object) -> None:
    with pytest.raises(LocalProtocolError, match=r"^owner: expected a"):
        checked_principal("owner", given)


@pytest.mark.parametrize("given", ["User:alice", b"x", 1, None])
def test_what_are_no_principals(given: object) -> None:
    with pytest.raises(LocalProtocolError, match=r"^renewers: expected principals such as \['User:alice'\]"):
        checked_principals("renewers", given)


@pytest.mark.parametrize("given", [TOKEN, TOKEN.hmac, TEXT, HMAC, bytearray(HMAC), memoryview(HMAC)])
def test_hmacs(given: object) -> None:
    assert checked_hmac(given) == HMAC


@pytest.mark.parametrize("given", ["no base64 at all", "ü", 12345678, None, ["x"], Secret("no base64 at all")])
def test_what_is_no_hmac(given: object) -> None:
    with pytest.raises(LocalProtocolError, match=r"^hmac: expected") as caught:
        checked_hmac(given)
    assert not any(str(given) in str(caught.value) for given in ("no base64 at all", 12345678))


def test_a_token_does_not_show_its_hmac() -> None:
    assert TEXT not in f"{TOKEN} {TOKEN!r}"
    assert TOKEN.hmac.reveal() == TEXT
