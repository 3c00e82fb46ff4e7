"""Bytes become printable text, or JSON members from which they can be restored; long values are written in pieces.

Method: write text of every kind, including text across the borders of pieces.
"""

from __future__ import annotations

import base64
import json

import pytest

from kafkawire.sdk.records.engines.shared_lines import PIECE_BYTES, json_member, text_pieces


def text(data: bytes) -> str:
    return b"".join(text_pieces(memoryview(data))).decode()


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", ""),
        (b'plain "text" \\', 'plain "text" \\'),
        ("€ ключ".encode(), "€ ключ"),
        (b"\n\r\t\x00\x1b[0m\x7f", "\\n\\r\\t\\x00\\x1b[0m\\x7f"),
        ("\x85\x9f\xa0".encode(), "\\xc2\\x85\\xc2\\x9f\xa0"),
        ("a\u2028\u202eb".encode(), "a\\xe2\\x80\\xa8\\xe2\\x80\\xaeb"),
        (b"\xff\xe2\x82A", "\\xff\\xe2\\x82A"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_text(data: bytes, shown: str) -> None:
    assert text(data) == shown


@pytest.mark.parametrize("cut", range(4))
def test_characters_across_pieces(cut: int) -> None:
    data = b"x" * (PIECE_BYTES - cut) + "€".encode() + b"y" * PIECE_BYTES
    assert text(data).encode() == data
    assert json.loads(b"{" + b"".join(json_member(b"a", memoryview(data))) + b"}") == {"a": data.decode()}
    data = data[:-1] + b"\xe2"
    found = json.loads(b"{" + b"".join(json_member(b"a", memoryview(data))) + b"}")
    assert base64.b64decode(found["aBase64"]) == data


def test_json() -> None:
    assert b"".join(json_member(b"a", None)) == b'"a":null'
    assert b"".join(json_member(b"a", memoryview(b'"\\\n\x7f'))) == b'"a":"\\"\\\\\\n\\u007f"'
    assert b"".join(json_member(b"a", memoryview(b"\xff"))) == b'"aBase64":"/w=="'
