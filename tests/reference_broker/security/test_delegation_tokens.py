"""Delegation tokens last as long as they should, and clients can log in with them.

Method: send requests to a broker without sockets whose peers the test sets; restart it with another key, and let time
pass. Brokers of a cluster run on real sockets.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac

import pytest

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import Revise, TokenDone, TokenInformation
from kafkawire.reference_broker.security.credentials import TokenCredentials
from kafkawire.reference_broker.security.delegation_tokens import TokenRequest
from kafkawire.reference_broker.storage.checkpoints import DELEGATION_TOKENS
from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkawire.sdk.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.token_bench import SECRET_KEY, MemberTokenBench, TokenBench
from tests.reference_broker.broker_cluster import BrokerCluster, until

DAY_MS = 24 * 60 * 60 * 1000

KINDS = pytest.mark.parametrize("kind", [TokenBench, MemberTokenBench])


@KINDS
def test_the_hmac_is_that_of_the_id(kind: type[TokenBench]) -> None:
    bench = kind()
    response = bench.create_token()
    assert response.hmac == hmac.new(SECRET_KEY.encode(), response.token_id.encode(), hashlib.sha512).digest()
    credentials: TokenCredentials = bench.core.tokens
    credential = credentials.token_credential(response.token_id)
    assert credential is not None
    assert credential.owner == KafkaPrincipal(USER, "alice")
    assert base64.b64decode(credential.hmac) == response.hmac
    assert credential.expires_ms == response.expiry_timestamp_ms
    assert credentials.token_credential("other") is None


def test_no_secret_is_stored() -> None:
    bench = TokenBench()
    response = bench.create_token()
    stored = read_file(bench.disk, DELEGATION_TOKENS)
    assert stored is not None
    assert response.token_id.encode() in stored
    for secret in (bytes(response.hmac), base64.b64encode(response.hmac), SECRET_KEY.encode()):
        assert secret not in stored
    assert SECRET_KEY not in repr(bench.core.options)


def test_another_secret_key_makes_other_hmacs() -> None:
    disk = MemoryDisk()
    bench = TokenBench(disk)
    response = bench.create_token()
    bench.core.close()
    again = TokenBench(disk, delegation_token_secret_key="another")
    (token,) = again.ask_as("alice", DescribeDelegationTokenRequest(None)).tokens
    assert token.token_id == response.token_id
    assert token.hmac != response.hmac
    unknown = again.ask_as("alice", RenewDelegationTokenRequest(response.hmac, -1))
    assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@KINDS
def test_expired_tokens_are_removed_at_intervals(kind: type[TokenBench]) -> None:
    bench = kind(delegation_token_expiry_check_interval_ms=100_000)
    short, long = bench.create_token(max_lifetime_ms=10_000), bench.create_token()
    bench.advance(59_999)
    assert bench.token_ids() == [short.token_id, long.token_id], "an expired token is shown until it is removed"
    bench.advance(1)
    assert bench.token_ids() == [long.token_id]
    third = bench.create_token(max_lifetime_ms=99_999)
    bench.advance(100_000)
    assert bench.token_ids() == [long.token_id]
    unknown = bench.ask_as("alice", RenewDelegationTokenRequest(third.hmac, -1))
    assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    bench.advance(DAY_MS)
    assert bench.token_ids() == [], "nobody has renewed the other one"


@KINDS
def test_a_renewed_token_is_kept_until_its_maximum_lifetime(kind: type[TokenBench]) -> None:
    bench = kind(delegation_token_expiry_time_ms=DAY_MS, delegation_token_max_lifetime_ms=DAY_MS * 3 // 2)
    response = bench.create_token()
    bench.advance(DAY_MS - 1)
    renewed = bench.ask_as("alice", RenewDelegationTokenRequest(response.hmac, -1))
    assert renewed.expiry_timestamp_ms == response.max_timestamp_ms == response.issue_timestamp_ms + DAY_MS * 3 // 2
    bench.advance(DAY_MS // 2)
    assert bench.token_ids() == [response.token_id]
    bench.advance(3_600_000)
    assert bench.token_ids() == []


def test_a_broker_that_becomes_the_controller_removes_expired_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = TokenBench(delegation_token_expiry_check_interval_ms=100_000)
    token = bench.create_token(max_lifetime_ms=10_000)
    is_controller = False
    monkeypatch.setattr(bench.core.tokens, "_is_controller", lambda: is_controller)
    bench.advance(60_000)
    assert bench.token_ids() == [token.token_id], "that is left to the controller"
    is_controller = True
    bench.advance(100_000)
    assert bench.token_ids() == []


@KINDS
def test_a_token_that_is_renewed_while_it_is_being_removed_stays(
    kind: type[TokenBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = kind(delegation_token_expiry_check_interval_ms=100_000, delegation_token_expiry_time_ms=10_000)
    token = bench.create_token()
    store = bench.core.tokens._store
    change = store.change
    removals: list[tuple[str, Revise, TokenDone]] = []
    monkeypatch.setattr(store, "change", lambda *removal: removals.append(removal))
    bench.advance(60_000)
    ((token_id, revise, done),) = removals
    renewed = store.tokens[token_id]._replace(expires_ms=bench.now_ms + DAY_MS)
    monkeypatch.setattr(store, "change", change)
    revisions: list[Revise] = [lambda _: renewed, revise]
    for each in revisions:
        store.change(token_id, each, done)
        bench.advance(0)
    assert bench.token_ids() == [token.token_id]
    assert store.tokens[token_id] == renewed


@KINDS
def test_times_beyond_what_the_protocol_can_say(kind: type[TokenBench]) -> None:
    longest = 2**63 - 1
    bench = kind(delegation_token_max_lifetime_ms=longest, delegation_token_expiry_time_ms=longest)
    response = bench.create_token(max_lifetime_ms=longest)
    assert (response.expiry_timestamp_ms, response.max_timestamp_ms) == (longest, longest)
    for request in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
        assert bench.ask_as("alice", request(response.hmac, longest)).expiry_timestamp_ms == longest


@KINDS
def test_too_many_tokens(kind: type[TokenBench]) -> None:
    bench = kind()
    bench.core.tokens._store.tokens_max = 2
    first = bench.create_token()
    bench.create_token()
    assert bench.create_token().error_code == ErrorCode.POLICY_VIOLATION
    bench.ask_as("alice", ExpireDelegationTokenRequest(first.hmac, -1))
    assert bench.create_token().error_code == ErrorCode.NONE


def test_the_secret_key_is_not_described() -> None:
    name = "delegation.token.secret.key"
    bench = TokenBench()
    resource = DescribeConfigsRequest.DescribeConfigsResource(ConfigResourceType.BROKER, "1", [name])
    (result,) = bench.ask(DescribeConfigsRequest([resource], include_synonyms=True)).results
    (entry,) = result.configs
    assert (entry.name, entry.value, entry.is_sensitive, entry.read_only) == (name, None, True, True)
    assert [synonym.value for synonym in entry.synonyms] == [None]


def test_brokers_of_a_cluster_share_tokens() -> None:
    async def run() -> None:
        async with BrokerCluster(2, delegation_token_secret_key=SECRET_KEY) as cluster:
            one, other = (broker.core.tokens for broker in cluster.brokers.values())
            alice = KafkaPrincipal(USER, "alice")
            made: list[TokenInformation | BrokerError] = []
            one.create(TokenRequest(alice, alice, (), -1), now_ms(), made.append)
            await until(lambda: bool(made), "the token is stored")
            (token,) = made
            assert isinstance(token, TokenInformation)
            await until(lambda: other.token_credential(token.token_id) is not None, "the other broker knows the token")
            assert other.token_credential(token.token_id) == one.token_credential(token.token_id)
            expired: list[int | BrokerError] = []
            other.expire(alice, other.hmac_of(token.token_id), -1, now_ms(), expired.append)
            await until(lambda: one.token_credential(token.token_id) is None, "the token is gone")
            assert not isinstance(expired[0], BrokerError)
            again = made.copy()
            one.create(TokenRequest(alice, alice, (), -1), now_ms(), again.append)
            await until(lambda: len(again) == 2, "another token is stored")
            await cluster.kill(2)
            broker = await cluster.start(2)
            kept = again[1]
            assert isinstance(kept, TokenInformation)
            assert broker.core.tokens.token_credential(kept.token_id) is not None, "tokens are read before the start"

    asyncio.run(run())
