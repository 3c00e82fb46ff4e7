"""ExpireDelegationToken gives the answers of Apache Kafka.

Method: send the requests of `token_cases.py` in order to a broker without sockets, and others to the only broker of a
cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.token_bench import MemberTokenBench, TokenBench, check_steps


@pytest.mark.parametrize("kind", [TokenBench, MemberTokenBench])
def test_answers(kind: type[TokenBench]) -> None:
    check_steps(kind(), ApiKey.EXPIRE_DELEGATION_TOKEN)


def test_answers_in_a_cluster() -> None:
    bench = MemberTokenBench()
    response = bench.create_token(max_lifetime_ms=10_000)
    for user, period_ms, code, time_ms in [
        ("bob", -1, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1),
        ("alice", 20_000, ErrorCode.NONE, bench.now_ms + 10_000),
        ("alice", 0, ErrorCode.NONE, bench.now_ms),
    ]:
        answer = bench.ask_as(user, ExpireDelegationTokenRequest(response.hmac, period_ms))
        assert (answer.error_code, answer.expiry_timestamp_ms) == (code, time_ms)
    bench.advance(1)
    for period_ms, code, time_ms in [
        (0, ErrorCode.DELEGATION_TOKEN_EXPIRED, -1),
        (-1, ErrorCode.NONE, bench.now_ms),
        (-1, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1),
    ]:
        answer = bench.ask_as("alice", ExpireDelegationTokenRequest(response.hmac, period_ms))
        assert (answer.error_code, answer.expiry_timestamp_ms) == (code, time_ms)


@pytest.mark.parametrize(("kind", "time_ms"), [(TokenBench, 0), (MemberTokenBench, -1)])
def test_a_broker_without_a_secret_key(kind: type[TokenBench], time_ms: int) -> None:
    bench = kind(delegation_token_secret_key=None)
    response = bench.ask_as("alice", ExpireDelegationTokenRequest(b"x", -1))
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert response.expiry_timestamp_ms == time_ms
