"""CreateDelegationToken gives the answers of Apache Kafka.

Method: send the requests of `token_cases.py` in order to a broker without sockets, and others to brokers without a key.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.token_bench import MemberTokenBench, TokenBench, check_steps


@pytest.mark.parametrize("kind", [TokenBench, MemberTokenBench])
def test_answers(kind: type[TokenBench]) -> None:
    check_steps(kind(), ApiKey.CREATE_DELEGATION_TOKEN)


@pytest.mark.parametrize("key", [None, ""])
@pytest.mark.parametrize(("kind", "time_ms"), [(TokenBench, 0), (MemberTokenBench, -1)])
def test_a_broker_without_a_secret_key(kind: type[TokenBench], time_ms: int, key: str | None) -> None:
    bench = kind(delegation_token_secret_key=key)
    response = bench.create_token()
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert (response.principal_type, response.principal_name) == ("User", "alice")
    assert {response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms} == {time_ms}
    assert bench.core.tokens.token_credential("x") is None
    refused = bench.ask_as(None, CreateDelegationTokenRequest())
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "this is checked first"


def test_ids_are_not_like_options() -> None:
    bench = TokenBench()
    uuids = iter([b"\xf8" + bytes(15), b"\x01" * 16])
    bench.core.tokens._new_uuid = lambda: next(uuids)
    assert bench.create_token().token_id == "AQEBAQEBAQEBAQEBAQEBAQ"
