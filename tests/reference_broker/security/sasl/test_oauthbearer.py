"""OAUTHBEARER passes tokens to a validator, and answers as Kafka does if a token is rejected.

Method: use a validator that knows one token; log in with this project's client, and with damaged messages.
`exchange_cases` compares every answer with Apache Kafka's.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.sasl.mechanism import (
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
)
from kafkawire.reference_broker.security.sasl.oauthbearer import (
    INSUFFICIENT_SCOPE,
    TOKENS_MAX,
    BearerToken,
    OAuthBearerExchange,
    TokenRejected,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.sasl.oauthbearer import OAuthBearerAuthenticator
from kafkawire.sdk.secret import Secret
from tests.reference_broker.security.sasl.hostile import assert_refused_or_same

TOKEN = "good-token"


class OneToken:
    """Accepts one token, and says of another one that its scope is insufficient."""

    def validate(self, token: str, now_ms: int) -> BearerToken:
        if token == "scopeless":
            raise TokenRejected("no scope", INSUFFICIENT_SCOPE, "[read]")
        if token != TOKEN:
            raise TokenRejected("unknown")
        return BearerToken("alice", now_ms + 5)


def exchange() -> OAuthBearerExchange:
    return OAuthBearerExchange(OneToken())


def message(token: str, identity: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {token}\x01\x01".encode()


@pytest.mark.parametrize("extensions", [{}, {"traceId": "1 2", "lot": "a=b"}])
def test_a_login(extensions: dict[str, str]) -> None:
    client, broker = OAuthBearerAuthenticator(Secret(TOKEN), extensions), exchange()
    assert client.respond(broker.respond(client.first_message(), 10)) is None
    assert broker.identity == Identity(KafkaPrincipal("User", "alice"), 15)


@pytest.mark.parametrize(
    ("token", "rejection"),
    [
        ("other", '{"status":"invalid_token"}'),
        ("scopeless", '{"status":"insufficient_scope", "scope":"[read]"}'),
    ],
)
def test_a_rejected_token(token: str, rejection: str) -> None:
    client, broker = OAuthBearerAuthenticator(Secret(token)), exchange()
    acknowledgement = client.respond(broker.respond(client.first_message(), 0))
    assert acknowledgement is not None
    with pytest.raises(LoginRefused) as raised:
        broker.respond(acknowledgement, 0)
    assert raised.value.detail == rejection
    assert broker.identity is None
    with pytest.raises(BrokerError, match="OAUTHBEARER: "):
        client.respond(b"")


def test_the_reason_for_a_rejection_is_for_the_log() -> None:
    error = TokenRejected("because", INSUFFICIENT_SCOPE, "[read]")
    assert (str(error), error.status, error.scope) == ("because", INSUFFICIENT_SCOPE, "[read]")


def test_another_token_after_a_rejected_one() -> None:
    broker = exchange()
    broker.respond(message("other"), 0)
    assert broker.respond(message(TOKEN), 0) == b""
    assert broker.identity is not None


def test_the_number_of_tokens_is_limited() -> None:
    broker = exchange()
    for _ in range(TOKENS_MAX):
        broker.respond(message("other"), 0)
    with pytest.raises(InvalidCredentials, match="more than 10 tokens"):
        broker.respond(message(TOKEN), 0)


def test_an_acknowledgement_counts_once() -> None:
    broker = exchange()
    broker.respond(message("other"), 0)
    with pytest.raises(InvalidCredentials):
        broker.respond(b"", 0)
    with pytest.raises(InvalidCredentials):
        broker.respond(b"\x01", 0)


def test_a_message_too_many() -> None:
    broker = exchange()
    broker.respond(message(TOKEN), 0)
    with pytest.raises(LoginAborted):
        broker.respond(message(TOKEN), 0)
    assert broker.identity is None


def test_acting_for_another_user() -> None:
    assert exchange().respond(message(TOKEN, "a=alice"), 0) == b""
    broker = exchange()
    with pytest.raises(LoginRefused, match=r"authorization id \(bob\) .* token's principal name \(alice\)"):
        broker.respond(message(TOKEN, "a=bob"), 0)
    assert broker.identity is None


def test_damaged_messages() -> None:
    """A login succeeds despite damage only if the case of the scheme has changed."""
    assert assert_refused_or_same(exchange, message(TOKEN), 0) == len("Bearer")


@given(st.binary() | st.text("n,a=\x01authBearer tokn").map(str.encode))
def test_noise(data: bytes) -> None:
    broker = exchange()
    with suppress(LoginRefused):
        broker.respond(data, 0)
    assert broker.identity is None


def test_many_extensions() -> None:
    """A message of the largest size that Kafka accepts is read in linear time."""
    pairs = "a=b\x01" * 100_000
    assert exchange().respond(f"n,,\x01auth=Bearer {TOKEN}\x01{pairs}\x01".encode(), 0) == b""
    with pytest.raises(InvalidCredentials):
        exchange().respond(f"n,,\x01auth=Bearer {TOKEN}\x01{pairs}".encode(), 0)
