"""PLAIN accepts only users with the right password.

Method: log in with this project's client, and with damaged messages; `exchange_cases` compares every answer with Apache
Kafka's.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.sasl.mechanism import Identity, LoginAborted, LoginRefused
from kafkawire.reference_broker.security.sasl.plain import PlainExchange, passwords_in
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.secret import Secret
from tests.reference_broker.security.sasl.hostile import assert_refused_or_same

PASSWORDS = {"alice": Secret("alice-secret"), "bob": Secret("")}


def exchange() -> PlainExchange:
    return PlainExchange(PASSWORDS)


def test_a_login() -> None:
    client, broker = PlainAuthenticator("alice", Secret("alice-secret")), exchange()
    assert broker.identity is None
    challenge = broker.respond(client.first_message(), 0)
    assert challenge == b""
    client.respond(challenge)
    assert broker.identity == Identity(KafkaPrincipal("User", "alice"))


def test_a_message_too_many() -> None:
    broker = exchange()
    broker.respond(b"\0alice\0alice-secret", 0)
    with pytest.raises(LoginAborted):
        broker.respond(b"\0alice\0alice-secret", 0)


def test_an_empty_password_never_matches() -> None:
    with pytest.raises(LoginRefused, match="password not specified"):
        exchange().respond(b"\0bob\0", 0)


@given(st.text(st.characters(exclude_characters="\0"), min_size=1), st.text(st.characters(exclude_characters="\0")))
def test_any_name_and_password(name: str, password: str) -> None:
    broker = PlainExchange({name: Secret(password)})
    for sent in ("x" + password, password + "x"):
        with pytest.raises(LoginRefused, match="Invalid username or password"):
            broker.respond(f"\0{name}\0{sent}".encode(), 0)
    if password:
        broker.respond(f"{name}\0{name}\0{password}".encode(), 0)
        assert broker.identity == Identity(KafkaPrincipal("User", name))


def test_damaged_messages() -> None:
    """No changed message logs the client in, unless the change removes nothing, and there is no such change."""
    assert assert_refused_or_same(exchange, b"\0alice\0alice-secret", 0) == 0


@given(st.binary())
def test_noise(data: bytes) -> None:
    with pytest.raises(LoginRefused):
        exchange().respond(data, 0)


def test_passwords_in_options() -> None:
    options = {"username": "admin", "password": "x", "user_alice": "y", "user_": "z", "user_user_b": ""}
    assert passwords_in(options) == {"alice": Secret("y"), "": Secret("z"), "user_b": Secret("")}
