"""A broker without sockets whose clients have logged in, and that creates delegation tokens."""

from __future__ import annotations

from typing import Any

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.apis.token_cases import STEPS, shown
from tests.reference_broker.broker_bench import LISTENER, BrokerBench
from tests.reference_broker.member_bench import MemberBench

__all__ = ["SECRET_KEY", "SECURED", "MemberTokenBench", "TokenBench", "check_steps"]

SECRET_KEY = "the key of all brokers"

SECURED = Listener("LOGIN", Address("", 9093), Address("broker", 9093), "SASL_PLAINTEXT")


class TokenBench(BrokerBench):
    """The broker.

    Args:
        disk: the data directory; None for an empty one.
        options: the broker's options.
    """

    def __init__(self, disk: Disk | None = None, /, **options: object) -> None:
        super().__init__(disk or MemoryDisk(), **{"delegation_token_secret_key": SECRET_KEY, **options})

    def ask_as(self, user: str | None, request: Message, version: int | None = None, *, is_token: bool = False) -> Any:
        """Return the response to a user; None is a client of the listener without a login."""
        before = self.peer
        self.peer = Peer(LISTENER if user is None else SECURED, "host")
        if user is not None:
            self.peer.principal = KafkaPrincipal(USER, user)
        self.peer.is_token = is_token
        try:
            return self.ask(request, version)
        finally:
            self.peer = before

    def create_token(self, user: str = "alice", **fields: object) -> CreateDelegationTokenResponse:
        """Create a token; return the response."""
        response = self.ask_as(user, CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields}))
        assert isinstance(response, CreateDelegationTokenResponse)
        return response

    def token_ids(self) -> list[str]:
        """Return the ids of the tokens that alice may see."""
        response = self.ask_as("alice", DescribeDelegationTokenRequest(None))
        assert not response.error_code
        return [token.token_id for token in response.tokens]


class MemberTokenBench(MemberBench, TokenBench):
    """The same as the only broker of a cluster, which follows the rules of Apache Kafka 3.9."""


def check_steps(bench: TokenBench, key: ApiKey) -> None:
    """Send the requests of the table, and check the answers of one API."""
    tokens: dict[str, CreateDelegationTokenResponse] = {}
    checked = 0
    for step in STEPS:
        request = step.request(tokens)
        response = bench.ask_as(step.user, request, step.version)
        if request.SCHEMA.key == key:
            expected = step.expected_in_cluster if isinstance(bench, MemberBench) else step.expected
            assert shown(response, tokens, bench.now_ms) == expected, step.name
            checked += 1
        if step.label:
            tokens[step.label] = response
        bench.advance(1)
    assert checked
