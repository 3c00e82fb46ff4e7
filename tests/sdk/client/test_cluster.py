"""Requests reach the right broker; outdated metadata is refreshed; retriable errors are retried, others raised.

Method: the scripted broker in memory, whose responses fail a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import AuthenticationFailed, BrokerError, ConnectFailed, ConnectionLost
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.wire import Address
from tests.sdk.scripted_broker import BROKER, Later, StoringBroker

T0 = TopicPartition("t", 0)


def clustered(
    test: Callable[[StoringBroker, Cluster], Awaitable[None]], servers: str = str(BROKER), **options: object
) -> None:
    """Run a test with a broker and a cluster that knows its address only."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        given = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "api_timeout_ms": 100, **options}
        cluster = Cluster(read_options(AdminOptions, servers, given), broker.network)
        await test(broker, cluster)
        await cluster.close()

    asyncio.run(run())


def test_bootstrap() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        assert cluster.metadata.leader(T0) == 1
        assert cluster.metadata.cluster_id == "scripted"
        assert await cluster.connection(1) is await cluster.any_connection()
        assert await cluster.controller() is await cluster.connection(1)

    clustered(test, "nobody:1, broker:9092")


def test_nobody_there() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        with pytest.raises(ConnectFailed, match=r"nobody:1.*; .*no-one:2") as caught:
            await cluster.refresh()
        assert isinstance(caught.value.__cause__, ConnectFailed)
        assert isinstance(caught.value.__cause__.__cause__, OSError)

    clustered(test, "nobody:1, no-one:2")


def test_a_login_that_is_refused_is_not_repeated() -> None:
    """Another attempt, at this broker or the next, may lock the user out."""

    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        broker.network.servers[Address("other", 9092)] = broker.network.servers[BROKER]
        broker.responders[ApiKey.SASL_HANDSHAKE] = lambda request: SaslHandshakeResponse()
        refusal = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong password")
        broker.responders[ApiKey.SASL_AUTHENTICATE] = lambda request: refusal
        with pytest.raises(AuthenticationFailed, match=r"cannot connect to broker:9092: sasl: .*wrong password"):
            await cluster.retrying(cluster.refresh)
        assert broker.asked(ApiKey.SASL_AUTHENTICATE) == [SaslAuthenticateRequest(b"\0alice\0pencil")]

    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    clustered(test, "broker:9092, other:9092", **login, sasl_username="alice", sasl_password="pencil")


def test_callers_share_a_refresh() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        asked = 0
        respond = broker.responders[ApiKey.METADATA]

        def count(request: Request) -> Message | Later | None:
            nonlocal asked
            asked += 1
            return respond(request)

        broker.responders[ApiKey.METADATA] = count
        await asyncio.gather(*[cluster.refresh() for _ in range(5)])
        assert asked == 1

    clustered(test)


def test_leaders() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        partitions = [T0, TopicPartition("t", 1)]
        assert await cluster.leaders(partitions) == {1: partitions}
        for partition in (TopicPartition("t", 2), TopicPartition("u", 0)):
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await cluster.leaders([partition])

    clustered(test)


def test_a_partition_without_a_leader() -> None:
    def headless(request: object) -> MetadataResponse:
        partition = MetadataResponse.MetadataResponsePartition(0, 0, -1, 1)
        topic = MetadataResponse.MetadataResponseTopic(0, "t", ZERO_UUID, partitions=[partition])
        return MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(1, *BROKER)], topics=[topic])

    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        broker.script(ApiKey.METADATA, headless, headless)
        with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE: partition t-0") as caught:
            await cluster.leaders([T0])
        assert caught.value.retriable
        assert await cluster.retrying(lambda: cluster.leaders([T0])) == {1: [T0]}

    clustered(test)


def test_a_node_that_is_not_there() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        await cluster.refresh()
        with pytest.raises(ConnectFailed, match="node 9: the cluster does not list it"):
            await cluster.connection(9)
        assert cluster.metadata.is_stale(monotonic_ms())

    clustered(test)


def test_the_coordinator_is_found_once_and_again_when_it_moved() -> None:
    def unavailable(request: object) -> FindCoordinatorResponse:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponse(coordinators=[FindCoordinatorResponse.Coordinator("g", error_code=code)])

    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        broker.script(ApiKey.FIND_COORDINATOR, unavailable)
        connection = await cluster.retrying(lambda: cluster.coordinator("g"), "g")
        assert await cluster.coordinator("g") is connection
        assert connection is not await cluster.connection(1)
        assert len(broker.asked(ApiKey.FIND_COORDINATOR)) == 2
        cluster.note(BrokerError(ErrorCode.NOT_COORDINATOR), "g")
        await cluster.coordinator("g")
        assert len(broker.asked(ApiKey.FIND_COORDINATOR)) == 3

    clustered(test)


def test_describe_waits_for_a_topic() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        waiting = asyncio.ensure_future(cluster.describe(["t", "new"]))
        await asyncio.sleep(0)
        broker.topics["new"] = 3
        assert {name: len(topic.partitions) for name, topic in (await waiting).items()} == {"t": 2, "new": 3}
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: topic never"):
            await cluster.describe(["never"])

    clustered(test)


@pytest.mark.parametrize(
    ("error", "final", "attempts"),
    [
        (BrokerError(ErrorCode.NOT_CONTROLLER), (), 3),
        (ConnectionLost("gone"), (), 3),
        (BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS), (), 1),
        (BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,), 1),
    ],
)
def test_retrying(error: Exception, final: tuple[ErrorCode, ...], attempts: int) -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        made = 0

        async def attempt() -> str:
            nonlocal made
            made += 1
            if made < 3:
                raise error
            return "done"

        if attempts == 3:
            assert await cluster.retrying(attempt, final=final) == "done"
        else:
            with pytest.raises(type(error)):
                await cluster.retrying(attempt, final=final)
        assert made == attempts

    clustered(test)


def test_retrying_ends() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        async def attempt() -> None:
            raise ConnectionLost("gone")

        with pytest.raises(ConnectionLost, match="gone"):
            await cluster.retrying(attempt)

    clustered(test, api_timeout_ms=20)
