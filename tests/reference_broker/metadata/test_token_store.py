"""A delegation token is stored as Apache Kafka stores it, and tells whom it concerns and when it has expired.

Method: check tables of tokens and principals; the JSON is what Kafka 3.9 writes.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import TokenInformation, stored_token, token_of
from kafkawire.sdk.protocol.tables.znodes import DELEGATION_TOKEN

ALICE, BOB, CAROL = (KafkaPrincipal(USER, name) for name in ("alice", "bob", "carol"))

TOKEN = TokenInformation("id", ALICE, BOB, (CAROL,), issued_ms=1, max_ms=30, expires_ms=20)


@pytest.mark.parametrize(
    "token",
    [
        TOKEN,
        TOKEN._replace(renewers=()),
        TOKEN._replace(
            owner=KafkaPrincipal(USER, "a:b/%ü"), renewers=(KafkaPrincipal(USER, ""), KafkaPrincipal("", ""))
        ),
    ],
)
def test_round_trip(token: TokenInformation) -> None:
    content = DELEGATION_TOKEN.encode(stored_token(token))
    assert token_of(DELEGATION_TOKEN.decode(content)) == token


def test_a_token_of_an_old_broker_was_requested_by_its_owner() -> None:
    content = b'{"version":1,"owner":"User%3Aalice","renewers":["User%3Acarol"],"issueTimestamp":1,'
    content += b'"maxTimestamp":30,"expiryTimestamp":20,"tokenId":"id"}'
    assert token_of(DELEGATION_TOKEN.decode(content)) == TOKEN._replace(requester=ALICE)


def test_a_principal_without_a_type() -> None:
    with pytest.raises(ValueError, match="alice"):
        token_of(stored_token(TOKEN)._replace(owner="alice"))


@pytest.mark.parametrize(
    ("principal", "concerns", "may_renew"),
    [
        (ALICE, True, True),
        (BOB, True, False),
        (CAROL, True, True),
        (KafkaPrincipal(USER, "dave"), False, False),
        (KafkaPrincipal("Group", "alice"), False, False),
    ],
)
def test_principals(principal: KafkaPrincipal, concerns: bool, may_renew: bool) -> None:
    assert (TOKEN.concerns(principal), TOKEN.may_be_renewed_by(principal)) == (concerns, may_renew)


def test_expiry() -> None:
    assert [TOKEN.is_expired(now_ms) for now_ms in (20, 21)] == [False, True]
    beyond = TOKEN._replace(expires_ms=40)
    assert [beyond.is_expired(now_ms) for now_ms in (30, 31)] == [False, True]
