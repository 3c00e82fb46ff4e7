"""Addresses are read in every form that Kafka's documentation uses, and refused with the text that is wrong.

Method: a table of texts and what they mean.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.transport.wire import Address, addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host:1", [("host", 1)]),
        ("host", [("host", 9092)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("127.0.0.1:65535", [("127.0.0.1", 65535)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("fe80::1", [("fe80::1", 9092)]),
    ],
)
def test_addresses(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert addresses(text) == tuple(Address(*each) for each in expected)


@pytest.mark.parametrize("text", ["", " , ", "host:", "host:0", "host:65536", "host:x", ":9092", "host:-1", "host:²"])
def test_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers="):
        addresses(text)


@pytest.mark.parametrize(("address", "text"), [(Address("a", 1), "a:1"), (Address("::1", 2), "[::1]:2")])
def test_text(address: Address, text: str) -> None:
    assert str(address) == text
    assert addresses(text) == (address,)
