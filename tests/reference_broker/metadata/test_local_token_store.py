"""The delegation tokens of a single broker survive restarts, and failures change nothing.

Method: send requests to a broker on an in-memory disk; restart it, crash it, let the disk fail, and damage the file.
"""

from __future__ import annotations

import errno

import pytest

from kafkawire.reference_broker.metadata.token_store import TokenInformation, TokenStore
from kafkawire.reference_broker.storage.checkpoints import DELEGATION_TOKENS
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkawire.sdk.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.token_bench import TokenBench


def test_changes_are_told_and_seen_in_order() -> None:
    store: TokenStore = TokenBench().core.tokens._store
    token = _token(TokenBench())
    told: list[str] = []
    outcomes: list[BrokerError | None] = []
    store.on_change = told.append
    store.change("x", lambda before: token._replace(token_id="x"), outcomes.append)
    store.change("x", lambda before: before and before._replace(expires_ms=7), outcomes.append)
    assert store.tokens["x"].expires_ms == 7
    store.change("x", lambda before: None, outcomes.append)
    assert (told, outcomes, dict(store.tokens)) == (["x"] * 3, [None] * 3, {})


def test_a_refused_change() -> None:
    bench = TokenBench()
    store: TokenStore = bench.core.tokens._store
    token = _token(bench)

    def refuse(before: TokenInformation | None) -> TokenInformation | None:
        assert before == token
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    outcomes: list[BrokerError | None] = []
    store.change(token.token_id, refuse, outcomes.append)
    (error,) = outcomes
    assert error is not None
    assert error.code is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert [*store.tokens.values()] == [token]


def _token(bench: TokenBench) -> TokenInformation:
    response = bench.create_token()
    return bench.core.tokens._store.tokens[response.token_id]


def test_tokens_survive_restarts_and_crashes() -> None:
    bench = TokenBench()
    renewers = [CreateDelegationTokenRequest.CreatableRenewers("User", "ü=:#!\n")]
    first, second = bench.create_token(renewers=renewers), bench.create_token("bob%2F/b")
    before = bench.ask_as("alice", DescribeDelegationTokenRequest(None))
    bench.crash()
    assert bench.ask_as("alice", DescribeDelegationTokenRequest(None)) == before
    assert bench.ask_as("alice", ExpireDelegationTokenRequest(first.hmac, -1)).error_code == ErrorCode.NONE
    assert bench.ask_as("bob%2F/b", RenewDelegationTokenRequest(second.hmac, 5)).error_code == ErrorCode.NONE
    bench.restart()
    response = bench.ask_as("alice", DescribeDelegationTokenRequest(None))
    assert [(token.token_id, token.expiry_timestamp) for token in response.tokens] == [
        (second.token_id, bench.now_ms + 5)
    ]


def test_a_failing_disk() -> None:
    disk = MemoryDisk()
    bench = TokenBench(disk)
    response = bench.create_token()

    def fail(call: DiskCall) -> None:
        if call.path.startswith(DELEGATION_TOKENS):
            raise OSError(errno.EIO, "failed")

    disk.plan = fail
    failed = bench.create_token()
    assert (failed.error_code, failed.token_id, failed.hmac) == (ErrorCode.KAFKA_STORAGE_ERROR, "", b"")
    failed = bench.ask_as("alice", ExpireDelegationTokenRequest(response.hmac, -1))
    assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.plan = None
    assert bench.token_ids() == [response.token_id]


@pytest.mark.parametrize(
    "content",
    [
        b"x={}",
        b"x=1",
        b'x={"version":3,"owner":"alice","tokenRequester":"User:a","renewers":[],"issueTimestamp":1,"maxTimestamp":1,'
        b'"expiryTimestamp":1,"tokenId":"x"}',
        b"x",
    ],
)
def test_a_damaged_file(content: bytes) -> None:
    disk = MemoryDisk()
    TokenBench(disk).core.close()
    replace_file(disk, DELEGATION_TOKENS, content)
    with pytest.raises(ConfigurationError, match=DELEGATION_TOKENS):
        TokenBench(disk)
