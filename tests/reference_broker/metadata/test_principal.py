"""Principals have the form that ACLs and quotas use.

Method: parse and print principals, and texts of another form.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.principal import ANONYMOUS, USER, KafkaPrincipal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", KafkaPrincipal(USER, "alice")),
        ("User:CN=a,O=b:c", KafkaPrincipal(USER, "CN=a,O=b:c")),
        ("Group:staff", KafkaPrincipal("Group", "staff")),
        ("User:ANONYMOUS", ANONYMOUS),
    ],
)
def test_round_trip(text: str, principal: KafkaPrincipal) -> None:
    assert KafkaPrincipal.parse(text) == principal
    assert str(principal) == text


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:", ":"])
def test_another_form(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form User:name"):
        KafkaPrincipal.parse(text)
