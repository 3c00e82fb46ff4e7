"""A SCRAM login sends what Apache Kafka's client sends, and succeeds only with a broker that knows the password.

Method: check Kafka's vectors; otherwise, log in with the server side of `kafkawire.sdk.protocol.scram`, whose tests
check the content of each message.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator
from kafkawire.sdk.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramServer, make_credential
from kafkawire.sdk.secret import Secret
from tests.vectors import read_vectors

MECHANISM = "SCRAM-SHA-256"


def vectors() -> list[dict[str, Any]]:
    """Return Kafka's own logins, except those with too few rounds for a client to accept."""
    found = [each for each in read_vectors("misc") if each["kind"] == "scram" and "error" not in each]
    return [each for each in found if each["iterations"] >= ITERATIONS_MIN]


def login(password: str = "pencil", nonce: str = "client") -> ScramAuthenticator:
    return ScramAuthenticator(MECHANISM, "alice", Secret(password), nonce)


def server(first: bytes, password: str = "pencil") -> tuple[ScramServer, bytes]:
    """Return a broker that knows a password, and the broker's challenge."""
    subject = ScramServer(MECHANISM, "server")
    subject.receive_first(first)
    return subject, subject.first_message(make_credential(MECHANISM, password, b"salt", ITERATIONS_MIN))


def test_kafkas_own_logins() -> None:
    found = vectors()
    assert len(found) > 10
    assert {each["mechanism"] for each in found} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    for each in found:
        is_token = ",tokenauth=true" in each["client_first"]
        password = Secret(each["password"])
        subject = ScramAuthenticator(each["mechanism"], each["user"], password, each["client_nonce"], is_token=is_token)
        assert subject.mechanism == each["mechanism"]
        assert subject.first_message().decode() == each["client_first"]
        assert subject.respond(each["server_first"].encode()) == each["client_final"].encode()
        assert subject.respond(each["server_final"].encode()) is None


def test_names_and_passwords_are_sent_as_they_are() -> None:
    """Kafka's client does not apply SASLprep, so a soft hyphen and a ligature are significant on both sides."""
    password = "p\u00ad\ufb01"
    subject = login(password)
    broker, challenge = server(subject.first_message(), password)
    proof = subject.respond(challenge)
    assert proof is not None
    assert subject.respond(broker.receive_final(proof)) is None
    broker, challenge = server((other := login("pfi")).first_message(), password)
    proof = other.respond(challenge)
    assert proof is not None
    with pytest.raises(BrokerError, match="invalid user or password"):
        broker.receive_final(proof)


def test_a_broker_that_does_not_know_the_password() -> None:
    subject = login()
    _, challenge = server(subject.first_message())
    subject.respond(challenge)
    forged = b"v=" + base64.b64encode(bytes(32))
    with pytest.raises(RemoteProtocolError, match="could not prove that it knows the user's password"):
        subject.respond(forged)


def test_a_broker_that_leaves_out_its_proof() -> None:
    subject = login()
    _, challenge = server(subject.first_message())
    subject.respond(challenge)
    with pytest.raises(RemoteProtocolError, match="does not follow RFC 5802"):
        subject.respond(b"")


def test_a_broker_that_accepts_without_a_challenge() -> None:
    subject = login()
    subject.first_message()
    with pytest.raises(RemoteProtocolError, match="does not follow RFC 5802"):
        subject.respond(b"")


def test_nothing_follows_the_proof() -> None:
    subject = login()
    broker, challenge = server(subject.first_message())
    proof = subject.respond(challenge)
    assert proof is not None
    final = broker.receive_final(proof)
    assert subject.respond(final) is None
    with pytest.raises(RemoteProtocolError, match="a challenge after the login was complete"):
        subject.respond(final)


@pytest.mark.parametrize("iterations", [ITERATIONS_MIN - 1, ITERATIONS_MAX + 1])
def test_rounds_are_bounded_on_both_sides(iterations: int) -> None:
    subject = login()
    subject.first_message()
    with pytest.raises(RemoteProtocolError, match=f"the broker asks for {iterations} iterations"):
        subject.respond(f"r=clientserver,s=c2FsdA==,i={iterations}".encode())
