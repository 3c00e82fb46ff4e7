"""Apache Kafka 3.9 and our brokers share delegation tokens through ZooKeeper, and follow the same rules.

Method: send the requests of `token_cases.py` to a Kafka node with a login; then let it and `RegistryTokens`, on the
same ZooKeeper, change each other's tokens. What one of them does reaches the other a moment later.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator

import pytest

from kafkawire.reference_broker.cluster.registry_tokens import RegistryTokens
from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import TokenInformation, stored_token
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkawire.sdk.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import DELEGATION_TOKEN
from kafkawire.sdk.registry.registry import Data, GetData
from kafkawire.sdk.registry.zookeeper import ZooKeeperRegistry
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.secure import PASSWORDS
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.ports import free_port
from tests.reference_broker.apis.token_cases import STEPS, shown
from tests.sdk.registry.owner import Owner

SECRET_KEY = "the key of all nodes"

ADMIN = KafkaPrincipal(USER, "admin")

Renewer = CreateDelegationTokenRequest.CreatableRenewers


class Scene:
    """A Kafka node, and our broker's view of the tokens on its ZooKeeper.

    Args:
        kafka: the node.
        login_port: the port of its listener with a login.
        connect: the address of ZooKeeper.

    Attributes:
        owner: runs what our side does.
        tokens: our side.
    """

    def __init__(self, kafka: ZooKeeperKafka, login_port: int, connect: str) -> None:
        self._kafka, self._login_port = kafka, login_port
        self.owner = Owner()
        self.registry = ZooKeeperRegistry(connect, self.owner.post)
        self.registry.start()
        self.tokens = RegistryTokens(self.registry, Timers(), now_ms)
        ready: list[Exception | None] = []
        self.tokens.start(ready.append)
        self.owner.until(lambda: bool(ready))
        assert ready == [None]

    def ask(self, user: str | None, request: Message, version: int | None = None) -> Message:
        """Return the response to a request that a user sends, or a client on the listener without a login."""
        host, _, port = self._kafka.bootstrap.rpartition(":")
        with FrameSocket(host, int(port) if user is None else self._login_port, TIMEOUT_MS / 1000) as socket:
            if user is not None:
                call(socket, SaslHandshakeRequest("PLAIN"), 1)
                call(socket, SaslAuthenticateRequest(f"\0{user}\0{PASSWORDS[user]}".encode()), 2)
            newest = APIS[ApiKey(request.SCHEMA.key or 0)].stable_versions.last
            return call(socket, request, newest if version is None else version)

    def kafkas(self) -> dict[str, DescribeDelegationTokenResponse.DescribedDelegationToken]:
        """Return the tokens that Kafka knows."""
        response = self.ask("admin", DescribeDelegationTokenRequest(None))
        assert isinstance(response, DescribeDelegationTokenResponse)
        return {token.token_id: token for token in response.tokens}

    def change(self, token_id: str, after: TokenInformation | None) -> None:
        """Change a token on our side."""
        done: list[BrokerError | None] = []
        self.tokens.change(token_id, lambda before: after, done.append)
        self.owner.until(lambda: bool(done))
        assert done == [None]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with ZooKeeper() as zookeeper:
        connect = f"{zookeeper.address}/kafka"
        port = free_port()
        users = " ".join(f'user_{name}="{word}"' for name, word in PASSWORDS.items())
        node = ZooKeeperKafka(0, connect)
        listeners = f"PLAINTEXT://{node.address},SASL_PLAINTEXT://127.0.0.1:{port}"
        node._settings |= {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            "delegation.token.master.key": SECRET_KEY,
        }
        with node:
            found = Scene(node, port, connect)
            yield found
            found.registry.close(10_000)


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline_ms = monotonic_ms() + TIMEOUT_MS
    while not holds():
        assert monotonic_ms() < deadline_ms, what


def test_the_answers_of_kafka(scene: Scene) -> None:
    tokens: dict[str, CreateDelegationTokenResponse] = {}
    differing = []
    for step in STEPS:
        response = scene.ask(step.user, step.request(tokens), step.version)
        found = shown(response, tokens, now_ms())
        if found != step.expected_in_cluster:
            differing.append(f"{step.name}: {found}, expected {step.expected_in_cluster}")
        if step.label:
            assert isinstance(response, CreateDelegationTokenResponse)
            tokens[step.label] = response
    if differing:
        pytest.fail("\n".join(differing))


def test_we_see_what_kafka_does(scene: Scene) -> None:
    renewers = [Renewer("User", "alice"), Renewer("User", "ü:/%")]
    request = CreateDelegationTokenRequest("User", "bob", renewers, 3_600_000)
    made = scene.ask("admin", request)
    assert isinstance(made, CreateDelegationTokenResponse)
    token_id, tokens = made.token_id, scene.tokens.tokens
    scene.owner.until(lambda: token_id in tokens)
    assert tokens[token_id] == TokenInformation(
        token_id,
        KafkaPrincipal(USER, "bob"),
        ADMIN,
        (KafkaPrincipal(USER, "alice"), KafkaPrincipal(USER, "ü:/%")),
        made.issue_timestamp_ms,
        made.max_timestamp_ms,
        made.expiry_timestamp_ms,
    )
    data = scene.owner.ask(scene.registry, GetData(DELEGATION_TOKEN.path(token_id)))
    assert isinstance(data, Data)
    assert data.data == DELEGATION_TOKEN.encode(stored_token(tokens[token_id])), "we write the same bytes"
    assert made.hmac == hmac.digest(SECRET_KEY.encode(), token_id.encode(), "sha512")
    before_ms = tokens[token_id].expires_ms
    scene.ask("alice", RenewDelegationTokenRequest(made.hmac, 60_000))
    scene.owner.until(lambda: tokens[token_id].expires_ms != before_ms)
    scene.ask("alice", ExpireDelegationTokenRequest(made.hmac, -1))
    scene.owner.until(lambda: token_id not in tokens)


def test_kafka_sees_what_we_do(scene: Scene) -> None:
    at_ms = now_ms()
    renewers = (KafkaPrincipal(USER, "alice"), KafkaPrincipal(USER, "ü:/%"))
    token = TokenInformation(
        "AQEBAQEBAQEBAQEBAQEBAQ", ADMIN, ADMIN, renewers, at_ms, at_ms + 7_200_000, at_ms + 3_600_000
    )
    scene.change(token.token_id, token)
    eventually(lambda: token.token_id in scene.kafkas(), "Kafka has not seen the token")
    seen = scene.kafkas()[token.token_id]
    assert seen.hmac == hmac.digest(SECRET_KEY.encode(), token.token_id.encode(), "sha512")
    assert [each.principal_name for each in seen.renewers] == ["alice", "ü:/%"]
    assert (seen.issue_timestamp, seen.max_timestamp, seen.expiry_timestamp) == token[4:]
    scene.change(token.token_id, token._replace(expires_ms=at_ms + 5_000_000))
    eventually(
        lambda: scene.kafkas()[token.token_id].expiry_timestamp == at_ms + 5_000_000, "Kafka has not seen a change"
    )
    renewed = scene.ask("alice", RenewDelegationTokenRequest(seen.hmac, 60_000))
    assert isinstance(renewed, RenewDelegationTokenResponse)
    assert renewed.error_code == ErrorCode.NONE
    scene.change(token.token_id, None)
    eventually(lambda: token.token_id not in scene.kafkas(), "Kafka has not seen that the token is gone")
