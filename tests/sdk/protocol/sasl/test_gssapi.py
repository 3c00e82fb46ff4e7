"""GSSAPI passes tokens on, chooses no security layer, and names anything that is missing.

Method: use a stand-in for the package `gssapi`, which plays both sides of Kerberos; no Kerberos server is involved.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.sasl.authenticator import CredentialsUnavailable
from kafkawire.sdk.protocol.sasl.gssapi import GssapiAuthenticator


class GSSError(Exception):
    """The exception that the package raises."""


class Context:
    """A context that is complete after two tokens, and wraps a message in brackets."""

    def __init__(self, name: str, usage: str, mech: str) -> None:
        assert (usage, mech) == ("initiate", "kerberos")
        self.name = name
        self.initiator_name = "alice@REALM"
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        if self.name == "kafka@nowhere":
            raise GSSError("Server not found in Kerberos database")
        if token is None:
            return b"ticket"
        if token == b"bad":
            raise GSSError("token is not authentic")
        self.complete = True
        return None

    def wrap(self, message: bytes, encrypts: bool) -> SimpleNamespace:
        assert not encrypts
        return SimpleNamespace(message=b"[" + message + b"]")

    def unwrap(self, message: bytes) -> SimpleNamespace:
        if message[:1] != b"[":
            raise GSSError("a token had an invalid signature")
        return SimpleNamespace(message=message[1:-1])


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("gssapi")
    module.exceptions = SimpleNamespace(GSSError=GSSError)
    module.NameType = SimpleNamespace(hostbased_service="hostbased")
    module.MechType = SimpleNamespace(kerberos="kerberos")
    module.Name = lambda name, name_type: name
    module.SecurityContext = Context
    monkeypatch.setitem(sys.modules, "gssapi", module)


def settled() -> GssapiAuthenticator:
    """Return a login that is waiting for the broker's offer of security layers."""
    subject = GssapiAuthenticator("kafka", "broker")
    subject.respond(b"proof")
    return subject


def test_a_login() -> None:
    subject = GssapiAuthenticator("kafka", "broker")
    assert subject.mechanism == "GSSAPI"
    assert subject.first_message() == b"ticket"
    assert subject.respond(b"proof") == b""
    assert subject.respond(b"[\x07\x00\x10\x00]") == b"[\x01\x00\x00\x00alice@REALM]"
    assert subject.respond(b"") is None


@pytest.mark.parametrize("offer", [b"[\x06\x00\x10\x00]", b"[\x01]", b"[]", b"[\x01\x00\x00\x00\x00]"])
def test_a_broker_that_insists_on_a_security_layer(offer: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="requires a security layer"):
        settled().respond(offer)


def test_an_offer_that_is_not_authentic() -> None:
    with pytest.raises(RemoteProtocolError, match="GSSAPI: a token had an invalid signature"):
        settled().respond(b"\x01\x00\x00\x00")


def test_a_token_that_is_not_authentic() -> None:
    with pytest.raises(RemoteProtocolError, match="GSSAPI: token is not authentic"):
        GssapiAuthenticator("kafka", "broker").respond(b"bad")


def test_a_challenge_after_the_end() -> None:
    subject = settled()
    subject.respond(b"[\x01\x00\x00\x00]")
    with pytest.raises(RemoteProtocolError, match="a challenge of 1 bytes after the login was complete"):
        subject.respond(b"x")


def test_no_ticket() -> None:
    with pytest.raises(CredentialsUnavailable, match="no ticket for kafka@nowhere: Server not found"):
        GssapiAuthenticator("kafka", "nowhere")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r'needs the package gssapi: pip install "kafkawire\[kerberos\]"'):
        GssapiAuthenticator("kafka", "broker")
