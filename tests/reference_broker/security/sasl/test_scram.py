"""SCRAM accepts clients that know the password, and owners of delegation tokens.

Method: check the vectors of RFC 7677, logins with this project's client, damaged messages, and every edge of the table
of states.
`exchange_cases` compares every answer with Apache Kafka's.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.credentials import ScramCredential, TokenCredential
from kafkawire.reference_broker.security.sasl.mechanism import (
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
)
from kafkawire.reference_broker.security.sasl.scram import SCRAM_EDGES, ScramExchange, ScramState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator
from kafkawire.sdk.protocol.scram import ITERATIONS_MIN, SCRAM_MECHANISMS, make_credential
from kafkawire.sdk.secret import Secret
from tests.reference_broker.security.sasl.hostile import assert_refused_or_same

ALICE = Identity(KafkaPrincipal("User", "alice"))
FIRST = b"n,,n=alice,r=client"
CREDENTIALS = {each: make_credential(each, "pencil", b"salt", ITERATIONS_MIN) for each in SCRAM_MECHANISMS}


class Store:
    """One user, and one delegation token."""

    def __init__(self, credential: ScramCredential | None = None, name: str = "alice") -> None:
        self._credential = credential
        self._name = name

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        return (self._credential or CREDENTIALS[mechanism]) if username == self._name else None

    def token_credential(self, token_id: str) -> TokenCredential | None:
        return TokenCredential(KafkaPrincipal("User", "owner"), "token-hmac", 99) if token_id == "token" else None


def exchange(mechanism: str = "SCRAM-SHA-256", store: Store | None = None, nonce: str = "server") -> ScramExchange:
    return ScramExchange(mechanism, nonce, store or Store(), store or Store())


def log_in(broker: ScramExchange, client: ScramAuthenticator) -> None:
    """Log a client in; both sides must be convinced."""
    proof = client.respond(broker.respond(client.first_message(), 0))
    assert proof is not None
    assert broker.identity is None
    assert client.respond(broker.respond(proof, 0)) is None


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_login(mechanism: str) -> None:
    broker = exchange(mechanism)
    log_in(broker, ScramAuthenticator(mechanism, "alice", Secret("pencil"), "client"))
    assert broker.identity == ALICE


def test_vectors_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    store = Store(make_credential("SCRAM-SHA-256", "pencil", salt, 4096), "user")
    broker = exchange(store=store, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert broker.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert broker.respond(final, 0) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert broker.identity == Identity(KafkaPrincipal("User", "user"))


@given(st.text("a=,'~ ", min_size=1), st.text(min_size=1, max_size=9))
def test_any_name_and_password(name: str, password: str) -> None:
    store = Store(make_credential("SCRAM-SHA-256", password, b"x", ITERATIONS_MIN), name)
    broker = exchange(store=store)
    log_in(broker, ScramAuthenticator("SCRAM-SHA-256", name, Secret(password), "client"))
    assert broker.identity == Identity(KafkaPrincipal("User", name))


def test_a_wrong_password_is_refused_like_an_unknown_user() -> None:
    broker = exchange()
    client = ScramAuthenticator("SCRAM-SHA-256", "alice", Secret("wrong"), "client")
    proof = client.respond(broker.respond(client.first_message(), 0))
    assert proof is not None
    with pytest.raises(InvalidCredentials, match="invalid user or password") as wrong:
        broker.respond(proof, 0)
    with pytest.raises(InvalidCredentials, match="unknown user") as unknown:
        exchange().respond(b"n,,n=bob,r=client", 0)
    assert wrong.value.detail == unknown.value.detail
    assert broker.identity is None


def test_a_delegation_token() -> None:
    broker = exchange()
    log_in(broker, ScramAuthenticator("SCRAM-SHA-256", "token", Secret("token-hmac"), "client", is_token=True))
    assert broker.identity == Identity(KafkaPrincipal("User", "owner"), 99, is_token=True)


@pytest.mark.parametrize(
    ("user", "password", "is_token"),
    [("token", "other-hmac", True), ("alice", "pencil", True), ("token", "token-hmac", False)],
)
def test_users_and_tokens_are_apart(user: str, password: str, is_token: bool) -> None:
    broker = exchange()
    with pytest.raises(InvalidCredentials):
        log_in(broker, ScramAuthenticator("SCRAM-SHA-256", user, Secret(password), "client", is_token=is_token))
    assert broker.identity is None


def test_without_delegation_tokens() -> None:
    broker = ScramExchange("SCRAM-SHA-256", "server", Store(), None)
    with pytest.raises(InvalidCredentials, match="unknown delegation token"):
        broker.respond(b"n,,n=token,r=client,tokenauth=true", 0)


def test_too_few_iterations() -> None:
    store = Store(make_credential("SCRAM-SHA-256", "pencil", b"salt", ITERATIONS_MIN - 1))
    with pytest.raises(InvalidCredentials, match="has 4095 iterations, fewer than 4096"):
        exchange(store=store).respond(FIRST, 0)


def test_a_broker_without_the_server_key_is_noticed() -> None:
    credential = CREDENTIALS["SCRAM-SHA-256"]._replace(server_key=bytes(32))
    client = ScramAuthenticator("SCRAM-SHA-256", "alice", Secret("pencil"), "client")
    with pytest.raises(Exception, match="could not prove that it knows") as raised:
        log_in(exchange(store=Store(credential)), client)
    assert not isinstance(raised.value, LoginRefused | BrokerError)


def test_damaged_messages() -> None:
    def challenged() -> ScramExchange:
        broker = exchange()
        broker.respond(FIRST, 0)
        return broker

    client = ScramAuthenticator("SCRAM-SHA-256", "alice", Secret("pencil"), "client")
    proof = client.respond(exchange().respond(client.first_message(), 0))
    assert proof is not None
    assert assert_refused_or_same(exchange, FIRST, 0) == 0
    # The last character of the base64 text before its padding has two bits without a meaning.
    assert assert_refused_or_same(challenged, proof, 0) <= 3


@given(st.binary() | st.text("n,=rsvcpai4096AB").map(str.encode))
def test_noise(data: bytes) -> None:
    broker = exchange()
    with pytest.raises(LoginRefused):
        broker.respond(data, 0)
    with pytest.raises(LoginAborted, match="a message after the login was failed"):
        broker.respond(data, 0)


def test_every_edge() -> None:
    """Each state is reached, and left in each way that the table names."""
    proof = ScramAuthenticator("SCRAM-SHA-256", "alice", Secret("pencil"), "client")
    proof.first_message()
    final = proof.respond(exchange().respond(FIRST, 0))
    assert final is not None
    taken = set()
    for messages in ((FIRST, final, b"", b""), (b"",), (FIRST, b"")):
        broker = exchange()
        for message in messages:
            before = broker.state
            if message in (FIRST, final):
                broker.respond(message, 0)
            else:
                with pytest.raises(LoginRefused):
                    broker.respond(message, 0)
                assert broker.identity is None
            taken.add((before, broker.state))
    assert taken == set(SCRAM_EDGES)
    assert broker.state is ScramState.FAILED
