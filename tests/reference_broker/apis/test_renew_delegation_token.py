"""RenewDelegationToken gives the answers of Apache Kafka.

Method: send the requests of `token_cases.py` in order to a broker without sockets, and others to the only broker of a
cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.token_bench import MemberTokenBench, TokenBench, check_steps


@pytest.mark.parametrize("kind", [TokenBench, MemberTokenBench])
def test_answers(kind: type[TokenBench]) -> None:
    check_steps(kind(), ApiKey.RENEW_DELEGATION_TOKEN)


DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("period_ms", "expected_ms"),
    [(-1, DAY_MS), (0, 0), (5_000, 5_000), (2 * DAY_MS, 2 * DAY_MS), (8 * DAY_MS, 7 * DAY_MS), (2**63 - 1, 7 * DAY_MS)],
)
def test_periods_in_a_cluster(period_ms: int, expected_ms: int) -> None:
    bench = MemberTokenBench()
    response = bench.create_token()
    renewed = bench.ask_as("alice", RenewDelegationTokenRequest(response.hmac, period_ms))
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (ErrorCode.NONE, bench.now_ms + expected_ms)


def test_the_order_of_checks_in_a_cluster() -> None:
    bench = MemberTokenBench()
    response = bench.create_token(max_lifetime_ms=1)
    bench.advance(2)
    for user, token_hmac, code in [
        ("bob", b"x", ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        ("bob", response.hmac, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        ("alice", response.hmac, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ]:
        refused = bench.ask_as(user, RenewDelegationTokenRequest(token_hmac, -1))
        assert (refused.error_code, refused.expiry_timestamp_ms) == (code, -1)


@pytest.mark.parametrize(("kind", "time_ms"), [(TokenBench, 0), (MemberTokenBench, -1)])
def test_a_broker_without_a_secret_key(kind: type[TokenBench], time_ms: int) -> None:
    bench = kind(delegation_token_secret_key=None)
    response = bench.ask_as("alice", RenewDelegationTokenRequest(b"x"))
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert response.expiry_timestamp_ms == time_ms
