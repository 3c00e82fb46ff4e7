"""Servers and a chroot are parsed from one text, and an invalid text is refused with a reason."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.connect_string import parse_connect


@pytest.mark.parametrize(
    ("connect", "servers", "chroot"),
    [
        ("a:1", "a:1", ""),
        ("a:1/", "a:1", ""),
        ("a:1, b:2/c/d", "a:1,b:2", "/c/d"),
        ("[::1]:2181/c", "[::1]:2181", "/c"),
    ],
)
def test_servers_and_chroots(connect: str, servers: str, chroot: str) -> None:
    assert parse_connect("zookeeper_connect", connect) == (servers, chroot)


@pytest.mark.parametrize(
    ("connect", "reason"),
    [
        ("", "expected host:port, got ''"),
        ("a", "expected host:port, got 'a'"),
        ("a:x", "expected host:port, got 'a:x'"),
        ("a:0", "expected host:port, got 'a:0'"),
        ("a:65536", "expected host:port, got 'a:65536'"),
        (":1", "expected host:port, got ':1'"),
        ("a:1,,b:1", "expected host:port, got ''"),
        ("::1:2181", "expected host:port, got '::1:2181'"),
        ("[bad:1", "expected host:port, got '[bad:1'"),
        ("a:1/c/", "the chroot '/c/': a path must not end with a slash"),
        ("a:1//c", "the chroot '//c': a path must not contain empty names"),
    ],
)
def test_texts_that_cannot_be_read(connect: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_connect("zookeeper.connect", connect)
    assert str(caught.value) == f"zookeeper.connect={connect!r}: {reason}"
