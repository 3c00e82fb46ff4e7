"""PLAIN sends the message that RFC 4616 requires, once.

Method: compare the message byte by byte, and pass values that the message cannot carry.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.secret import Secret


def test_a_login() -> None:
    subject = PlainAuthenticator("älice", Secret("pässword"))
    assert subject.mechanism == "PLAIN"
    assert subject.first_message() == "\0älice\0pässword".encode()
    subject.respond(b"")


def test_what_the_broker_says_at_the_end_is_ignored() -> None:
    PlainAuthenticator("alice", Secret("x")).respond(b"welcome")


@pytest.mark.parametrize(
    ("username", "password", "text"),
    [("", "x", "sasl_username=''"), ("a\0b", "x", r"sasl_username='a\\x00b'"), ("a", "x\0y", "sasl_password=<hidden>")],
)
def test_values_that_cannot_be_sent(username: str, password: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        PlainAuthenticator(username, Secret(password))
