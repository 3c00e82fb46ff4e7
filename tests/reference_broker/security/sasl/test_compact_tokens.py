"""Parts of tokens are decoded strictly, and errors do not show them.

Method: decode every length with and without padding; read JSON of the encodings and forms that Kafka's parsers accept.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.security.sasl.compact_tokens import MalformedToken, first_json, from_base64url


@given(st.binary(max_size=20))
def test_base64url(data: bytes) -> None:
    text = base64.urlsafe_b64encode(data).decode()
    assert from_base64url(text) == from_base64url(text.rstrip("=")) == data


@pytest.mark.parametrize(
    "text", ["A", "AAAAA", "AA=", "AAA==", "A===", "=", "AA+A", "AA/A", "AA A", "AA\n=", "A=AA", "ä"]
)
def test_what_is_not_base64url(text: str) -> None:
    with pytest.raises(MalformedToken, match=r"^a part of the token is not base64url$"):
        from_base64url(text)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b' \r\n\t{"a":[1,2.5,null,true,"x"]} rest', {"a": [1, 2.5, None, True, "x"]}),
        (b"\xef\xbb\xbf[]", []),
        ('{"a":"ä"}'.encode("utf-16"), {"a": "ä"}),
        ("[1]".encode("utf-32-be"), [1]),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"", None),
        (b"  ", None),
    ],
)
def test_json(data: bytes, value: object) -> None:
    assert first_json(data) == value


@pytest.mark.parametrize(
    "data", [b"{", b"x", b"NaN", b"[Infinity]", b'"\xff"', b"[" * 100_000, b'{"a":"\x01"}', b"9" * 5000]
)
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(MalformedToken, match=r"^a part of the token is not JSON$"):
        first_json(data)


def test_text_after_the_json() -> None:
    assert first_json(b"{} \n", allows_more=False) == {}
    with pytest.raises(MalformedToken, match="text follows the JSON"):
        first_json(b"{} x", allows_more=False)
