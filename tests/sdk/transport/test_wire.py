"""Addresses are read in every form that Kafka's documentation uses, and errors show the wrong part.

Method: read a table of strings, and compare their meanings.
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected at least one host:port"),
        (" , ", "expected at least one host:port"),
        ([9092], "expected strings of the form host:port"),
        ("host:", "the port is missing"),
        ("\ud800:1", r"'\ud800:1': expected host:port"),
        ("ho\0st:1", r"'ho\x00st:1': expected host:port"),
        ("host:0", "port 0 is outside 1 to 65535"),
        ("host:65536", "port 65536 is outside 1 to 65535"),
        ("host:" + "9" * 5000, "is outside 1 to 65535"),
        ("host:x", "port 'x' is not a number"),
        ("host:-1", "port '-1' is not a number"),
        ("host:²", "port '²' is not a number"),
        (":9092", "expected host:port, with IPv6 addresses in brackets"),
        ("[::1", "expected host:port, with IPv6 addresses in brackets"),
        ("[::1]9092", "expected host:port, with IPv6 addresses in brackets"),
        ("[host]:9092", "expected host:port, with IPv6 addresses in brackets"),
        ("a:1;b:2", "expected host:port, with IPv6 addresses in brackets"),
        ("http://host:9092", "expected host:port, with IPv6 addresses in brackets"),
        ("x" * 64, "a part of the host has 64 characters, but at most 63 are allowed"),
        (f"kafka.{'x' * 70}.org:9092", "a part of the host has 70 characters, but at most 63 are allowed"),
        ("two words:1", "expected host:port, with IPv6 addresses in brackets"),
    ],
)
def test_refused(text: str | list[str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        addresses(text)
    assert str(caught.value).startswith(f"bootstrap_servers={text[:8]!r}"[:-1])
    assert reason in str(caught.value)


def test_a_long_name() -> None:
    name = ".".join(["x" * 63] * 3)
    assert addresses(name) == (Address(name, 9092),)


def test_listening_names_its_port() -> None:
    assert Address.parse("--listen", "localhost:0", lowest_port=0) == ("localhost", 0)
    with pytest.raises(ConfigurationError, match="--listen='localhost': the port is missing"):
        Address.parse("--listen", "localhost", lowest_port=0)


@pytest.mark.parametrize(("address", "text"), [(Address("a", 1), "a:1"), (Address("::1", 2), "[::1]:2")])
def test_text(address: Address, text: str) -> None:
    assert str(address) == text
    assert addresses(text) == (address,)
