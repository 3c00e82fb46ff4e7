"""Text becomes UTF-8, bytes stay bytes, and anything else is refused with an error that shows it.

Method: check tables of content and headers, accepted and refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.records.content import record_content, record_headers


class Text(str):
    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        return b"something else"


REMEDY = (
    "pass the producer a value_serializer, such as lambda value: json.dumps(value), "
    "or encode it in the way that your readers expect"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (b"", b""),
        (b"bytes", b"bytes"),
        ("", b""),
        ("grüße", "grüße".encode()),
        (Text("own"), b"own"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abc")[1:], b"bc"),
        (array("H", [1, 1]), array("H", [1, 1]).tobytes()),
    ],
)
def test_accepted(given: Any, expected: bytes | None) -> None:
    found = record_content("value", given)
    assert found == expected
    assert found is None or len(found) == len(expected or b"")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, f"value: expected bytes, text or None, got 5; {REMEDY}"),
        (1.5, f"value: expected bytes, text or None, got 1.5; {REMEDY}"),
        (True, f"value: expected bytes, text or None, got True; {REMEDY}"),
        ([1, 2], f"value: expected bytes, text or None, got list; {REMEDY}"),
        ({"a": 1}, f"value: expected bytes, text or None, got dict; {REMEDY}"),
        ("\ud800", "value: '\\ud800' is not encodable as UTF-8: surrogates not allowed"),
    ],
)
def test_refused(given: Any, message: str) -> None:
    with pytest.raises(EncodeError) as caught:
        record_content("value", given)
    assert str(caught.value) == message


def pairs() -> Iterator[tuple[str, str]]:
    yield "a", "1"
    yield "a", "2"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), ()),
        ([("a", b"1"), ("b", "2"), ("a", None)], (("a", b"1"), ("b", b"2"), ("a", None))),
        ({"a": "1", "b": None}, (("a", b"1"), ("b", None))),
        ([["a", "1"]], (("a", b"1"),)),
        (pairs(), (("a", b"1"), ("a", b"2"))),
    ],
)
def test_headers(given: Any, expected: tuple[tuple[str, bytes | None], ...]) -> None:
    assert record_headers(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 5}, "headers['a']: expected bytes, text or None, got 5; encode it in the way that your readers expect"),
        (
            [("a", [b"1"])],
            "headers['a']: expected bytes, text or None, got list; encode it in the way that your readers expect",
        ),
        ([(b"a", b"1")], "headers: expected a string as the name, got bytes"),
        ([(None, b"1")], "headers: expected a string as the name, got NoneType"),
        ([("\ud800", b"1")], "headers: '\\ud800' is not encodable as UTF-8: surrogates not allowed"),
        ([("a",)], "headers: expected pairs of a name and a value, but one of them is ('a',)"),
        (["ab"], "headers: expected pairs of a name and a value, but one of them is 'ab'"),
        (("a", b"1"), "headers: expected pairs of a name and a value, but one of them is 'a'"),
        ("ab", "headers: expected pairs of a name and a value, got 'ab'"),
        (5, "headers: expected pairs of a name and a value, got 5"),
    ],
)
def test_refused_headers(given: Any, message: str) -> None:
    with pytest.raises(EncodeError) as caught:
        record_headers(given)
    assert str(caught.value) == message
