"""DescribeDelegationToken gives the answers of Apache Kafka.

Method: send the requests of `token_cases.py` in order to a broker without sockets, and to the only broker of a cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.token_bench import MemberTokenBench, TokenBench, check_steps


@pytest.mark.parametrize("kind", [TokenBench, MemberTokenBench])
def test_answers(kind: type[TokenBench]) -> None:
    check_steps(kind(), ApiKey.DESCRIBE_DELEGATION_TOKEN)


@pytest.mark.parametrize("kind", [TokenBench, MemberTokenBench])
def test_a_broker_without_a_secret_key(kind: type[TokenBench]) -> None:
    bench = kind(delegation_token_secret_key=None)
    response = bench.ask_as("alice", DescribeDelegationTokenRequest(None))
    assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ())


def test_tokens_of_a_cluster() -> None:
    bench = MemberTokenBench()
    first, second = bench.create_token(), bench.create_token("bob", max_lifetime_ms=5_000)
    response = bench.ask_as("alice", DescribeDelegationTokenRequest(None))
    assert [(token.token_id, token.hmac) for token in response.tokens] == [
        (first.token_id, first.hmac),
        (second.token_id, second.hmac),
    ]
