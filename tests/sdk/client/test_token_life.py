"""A token says when it expires, if it is a signed token with that claim; any other text has no known end.

Method: read tokens of all forms, among them damaged ones.
"""

from __future__ import annotations

import base64
import json

import pytest

from kafkawire.sdk.client.token_life import expires_ms
from kafkawire.sdk.secret import Secret


def signed(claims: object) -> str:
    """Return a token whose claims are padded as little as the standard demands."""
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (signed({"exp": 1_000}), 1_000_000),
        (signed({"exp": 0.5, "sub": "alice"}), 500),
        (signed({"exp": 1, "sub": "äöüß"}), 1_000),
        (signed({"sub": "alice"}), None),
        (signed({"exp": "1000"}), None),
        (signed({"exp": True}), None),
        (signed({"exp": float("inf")}), None),
        (signed([1]), None),
        ("opaque", None),
        ("a.b", None),
        ("a.b.c", None),
        ("a.%%%.c", None),
        ("e30.eyJl.c", None),
        ("a.b.c.d", None),
    ],
)
def test_when_a_token_expires(token: str, expected: float | None) -> None:
    assert expires_ms(Secret(token)) == expected
