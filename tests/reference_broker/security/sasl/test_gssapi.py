"""GSSAPI accepts Kerberos principals, without a security layer.

Method: log in with this project's client in a realm of MIT Kerberos, if it is installed; everything else with a
stand-in for the package `gssapi`, which plays the broker's side, and every edge of the table of states.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.sasl.gssapi import GSSAPI_EDGES, Acceptor, GssapiExchange, GssapiState
from kafkawire.reference_broker.security.sasl.kerberos_names import ShortNames
from kafkawire.reference_broker.security.sasl.mechanism import (
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
)
from kafkawire.reference_broker.security.sasl.mechanisms import new_exchange
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.sasl.gssapi import GssapiAuthenticator
from tests.needs import KERBEROS
from tests.reference_broker.security.sasl.kerberos_realm import REALM, KerberosRealm

NAMES = ShortNames(["DEFAULT"], "REALM")


class GSSError(Exception):
    """The exception that the package raises."""


class Context:
    """A context that is complete after the token `last`, and wraps a message in brackets."""

    def __init__(self, creds: SimpleNamespace, usage: str) -> None:
        assert (creds.name, usage) == ("kafka/broker@REALM", "accept")
        self.initiator_name = "alice@REALM"
        self.complete = False

    def step(self, token: bytes) -> bytes | None:
        if token not in (b"first", b"last", b"last with answer"):
            raise GSSError("token is not authentic")
        self.complete = token != b"first"
        return None if token == b"last" else b"answer"

    def wrap(self, message: bytes, encrypts: bool) -> SimpleNamespace:
        assert not encrypts
        return SimpleNamespace(message=b"[" + message + b"]")

    def unwrap(self, message: bytes) -> SimpleNamespace:
        if message[:1] != b"[":
            raise GSSError("a token had an invalid signature")
        return SimpleNamespace(message=message[1:-1])


def _credentials(**arguments: Any) -> SimpleNamespace:
    if arguments["name"] not in ("kafka/broker@REALM", "kafka/broker@A@B"):
        raise GSSError("No key table entry found")
    assert arguments["usage"] == "accept"
    assert arguments["mechs"] == ["kerberos"]
    assert arguments.get("store") in (None, {"keytab": "FILE:/etc/keytab"})
    return SimpleNamespace(name=arguments["name"])


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("gssapi")
    module.exceptions = SimpleNamespace(GSSError=GSSError)
    module.NameType = SimpleNamespace(kerberos_principal="principal")
    module.MechType = SimpleNamespace(kerberos="kerberos")
    module.Name = lambda name, name_type: name
    module.Credentials = _credentials
    module.SecurityContext = Context
    monkeypatch.setitem(sys.modules, "gssapi", module)


def exchange(*messages: bytes, names: ShortNames = NAMES) -> GssapiExchange:
    """Return a login that has got messages."""
    broker = GssapiExchange(Acceptor("kafka/broker@REALM", "/etc/keytab"), names)
    for message in messages:
        broker.respond(message, 0)
    return broker


CHOICE = b"[\x01\x00\x00\x00]"


@pytest.mark.usefixtures("package")
def test_a_login() -> None:
    broker = exchange()
    assert broker.respond(b"first", 0) == b"answer"
    assert broker.respond(b"last with answer", 0) == b"answer"
    assert broker.respond(b"", 0) == b"[\x01\x01\x00\x00]"
    assert broker.identity is None
    assert broker.respond(CHOICE, 0) == b""
    assert broker.identity == Identity(KafkaPrincipal("User", "alice"))


@pytest.mark.usefixtures("package")
def test_a_login_without_a_last_token() -> None:
    assert exchange().respond(b"last", 0) == b"[\x01\x01\x00\x00]"


@pytest.mark.usefixtures("package")
def test_the_authorization_id_is_ignored() -> None:
    """As in Kafka, a client may ask to act for anyone, but acts only for itself."""
    broker = exchange(b"last", b"[\x01\x00\x00\x00bob@REALM]")
    assert broker.identity == Identity(KafkaPrincipal("User", "alice"))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("before", "message", "error", "reason"),
    [
        ((), b"", InvalidCredentials, "GSSAPI: token is not authentic"),
        ((b"first",), b"noise", InvalidCredentials, "GSSAPI: token is not authentic"),
        ((b"last with answer",), b"noise", InvalidCredentials, "5 bytes in place of an acknowledgement"),
        ((b"last",), b"\x01\x00\x00\x00", InvalidCredentials, "a token had an invalid signature"),
        ((b"last",), b"[\x01]", LoginAborted, "the choice of a security layer has 1 bytes"),
        ((b"last",), b"[\x02\x00\x00\x00]", InvalidCredentials, "the client chose a security layer"),
        ((b"last", CHOICE), b"", LoginAborted, "a message after the login was complete"),
    ],
)
def test_refused_messages(before: tuple[bytes, ...], message: bytes, error: type[LoginRefused], reason: str) -> None:
    broker = exchange(*before)
    with pytest.raises(error, match=reason) as raised:
        broker.respond(message, 0)
    assert type(raised.value) is error
    assert broker.identity is None
    with pytest.raises(LoginAborted, match="a message after the login was failed"):
        broker.respond(message, 0)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("rule", ["RULE:[2:$1]", "RULE:[1:$1@$0]", "RULE:[1:$5]"])
def test_principals_without_a_short_name(rule: str) -> None:
    broker = exchange(b"last", names=ShortNames([rule], "REALM"))
    with pytest.raises(LoginAborted, match="rule"):
        broker.respond(CHOICE, 0)
    assert broker.identity is None


@pytest.mark.usefixtures("package")
def test_every_edge() -> None:
    taken = set()
    whole = (b"first", b"first", b"last with answer", b"", CHOICE, b"", b"")
    for messages in (whole, (b"x",), (b"last", b"x"), (b"last with answer", b"x")):
        broker = exchange()
        for message in messages:
            before = broker.state
            try:
                broker.respond(message, 0)
            except LoginRefused:
                assert broker.state is GssapiState.FAILED
            taken.add((before, broker.state))
    assert taken == set(GSSAPI_EDGES)


@pytest.mark.usefixtures("package")
def test_a_principal_without_a_key() -> None:
    with pytest.raises(ValueError, match="the key of kafka/other@REALM cannot be used: No key table entry found"):
        Acceptor("kafka/other@REALM", None)
    Acceptor("kafka/broker@REALM", None)


class NoUsers:
    """Has no users."""

    def scram_credential(self, mechanism: str, username: str) -> None:
        return None


def settings(options: str, **others: str) -> dict[str, str]:
    return {"sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};"} | others


RULES = "sasl.kerberos.principal.to.local.rules"


@pytest.mark.usefixtures("package")
def test_settings() -> None:
    given = settings('useKeyTab=true storeKey=true keyTab="/etc/keytab" principal="kafka/broker@REALM"')
    for rules, name in (({}, "alice"), ({RULES: "RULE:[1:$1]/U,DEFAULT"}, "ALICE")):
        broker = new_exchange("GSSAPI", given | rules, NoUsers(), None)()
        for message in (b"last", CHOICE):
            broker.respond(message, 0)
        assert broker.identity == Identity(KafkaPrincipal("User", name))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (settings(""), "sasl.jaas.config=<hidden>: the option principal is required"),
        (settings('principal="kafka/other@REALM"'), "sasl.jaas.config=<hidden>: the key of kafka/other@REALM"),
        (settings('principal="kafka/broker@A@B"'), "'kafka/broker@A@B' is not a name of Kerberos"),
        (settings('principal="kafka/broker@REALM"', **{RULES: "other"}), "'other' is neither DEFAULT nor a rule"),
    ],
)
def test_unusable_settings(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        new_exchange("GSSAPI", given, NoUsers(), None)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r'needs the package gssapi: pip install "kafkawire\[kerberos\]"'):
        new_exchange("GSSAPI", settings('principal="kafka/broker@REALM"'), NoUsers(), None)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    pytest.importorskip("gssapi")
    KERBEROS.require()
    with KerberosRealm(tmp_path_factory.mktemp("realm")) as realm, pytest.MonkeyPatch.context() as patch:
        for principal in ("alice", "kafka/localhost"):
            realm.add(principal)
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        yield realm


def test_a_realm(realm: KerberosRealm) -> None:
    import gssapi

    name = gssapi.Name(f"alice@{REALM}", name_type=gssapi.NameType.kerberos_principal)
    store = {"client_keytab": str(realm.keytab), "ccache": os.environ["KRB5CCNAME"]}
    assert gssapi.Credentials(name=name, usage="initiate", store=store).lifetime > 0  # which gets a ticket
    given = settings(f'keyTab="{realm.keytab}" principal="kafka/localhost@{REALM}"')
    mechanism = new_exchange("GSSAPI", given, NoUsers(), None)
    client, broker = GssapiAuthenticator("kafka", "localhost"), mechanism()
    message: bytes | None = client.first_message()
    first = message
    assert first is not None
    while message is not None:
        message = client.respond(broker.respond(message, 0))
    assert broker.identity == Identity(KafkaPrincipal("User", "alice"))
    with pytest.raises(InvalidCredentials, match="Request is a replay"):
        mechanism().respond(first, 0)
    for damaged in (b"", b"x", first[:-1], first + b"x", bytes(len(first))):
        with pytest.raises(LoginRefused):
            mechanism().respond(damaged, 0)


def test_a_principal_in_the_default_realm(realm: KerberosRealm) -> None:
    assert Acceptor("kafka/localhost", str(realm.keytab)).realm == REALM


def test_a_keytab_without_the_principal(realm: KerberosRealm, tmp_path: Path) -> None:
    for principal, keytab in (("kafka/other", realm.keytab), ("kafka/localhost", tmp_path / "none")):
        with pytest.raises(ValueError, match=f"the key of {principal}@{REALM} cannot be used"):
            Acceptor(f"{principal}@{REALM}", str(keytab))


@pytest.mark.usefixtures("package")
@given(st.binary())
def test_noise(data: bytes) -> None:
    for before in ((), (b"last with answer",), (b"last",)):
        broker = exchange(*before)
        try:
            broker.respond(data, 0)
        except LoginRefused:
            assert broker.identity is None
