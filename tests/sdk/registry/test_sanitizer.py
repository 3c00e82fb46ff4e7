"""Names are sanitized as in Kafka, and survive a round trip.

Method: compare with Apache Kafka 3.9.1's results for ASCII and other characters, and for text that is not sanitized;
try any name.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.registry.sanitizer import desanitize, sanitize

NAMES = [
    ("alice", "alice"),
    ("User:al ice*~", "User%3Aal%20ice%2A%7E"),
    ("<default>", "%3Cdefault%3E"),
    ("a/b.-_c", "a%2Fb.-_c"),
    ("\x01\n\x7f", "%01%0A%7F"),
    ("é€😀", "%C3%A9%E2%82%AC%F0%9F%98%80"),
    ("!\"#$%&'()+,;=?@[\\]^`{|}", "%21%22%23%24%25%26%27%28%29%2B%2C%3B%3D%3F%40%5B%5C%5D%5E%60%7B%7C%7D"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "text"), NAMES)
def test_names(name: str, text: str) -> None:
    assert sanitize(name) == text
    assert desanitize(text) == name


@pytest.mark.parametrize(("text", "name"), [("a+b", "a b"), ("%41", "A"), ("%ff", "�"), ("é", "é"), ("%c3%a9x", "éx")])
def test_text_that_kafka_reads_as_well(text: str, name: str) -> None:
    assert desanitize(text) == name


@pytest.mark.parametrize(("text", "position"), [("%", 0), ("a%4", 1), ("%zz", 0), ("%41%-1", 3)])
def test_broken_text(text: str, position: int) -> None:
    with pytest.raises(ValueError, match=f"no two hexadecimal digits follow the percent sign at character {position}"):
        desanitize(text)


def test_an_unpaired_surrogate_has_no_form() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        sanitize("\ud800")


@given(st.text())
def test_any_name_comes_back(name: str) -> None:
    text = sanitize(name)
    assert text.isascii()
    assert "/" not in text
    assert desanitize(text) == name
