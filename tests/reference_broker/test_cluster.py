"""In a cluster, records, groups and transactions outlive a broker, and replicas are identical byte for byte.

Method: run three in-process brokers on real sockets, with one embedded registry, and use the SDK's clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from kafkawire import Admin, Consumer, NewTopic, Producer
from kafkawire.reference_broker.cluster.membership import Membership
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.broker_cluster import PATIENCE_SECONDS, BrokerCluster, until
from tests.sdk.transport.responses import response_to

R = TypeVar("R", bound=Message)


def in_cluster(story: Callable[[BrokerCluster], Awaitable[None]], **options: Any) -> None:
    """Run a story in a cluster of three brokers."""

    async def run() -> None:
        async with BrokerCluster(**options) as cluster:
            await story(cluster)

    asyncio.run(run())


async def create(cluster: BrokerCluster, name: str, partitions: int = 1, replicas: int = 3) -> None:
    async with Admin(cluster.bootstrap) as admin, asyncio.timeout(PATIENCE_SECONDS):
        await admin.create_topics([NewTopic(name, partitions, replicas)])


async def produce(cluster: BrokerCluster, topic: str, values: list[bytes], **options: Any) -> None:
    async with Producer(cluster.bootstrap, acks="all", **options) as producer, asyncio.timeout(PATIENCE_SECONDS):
        for value in values:
            await producer.send(topic, value)
        await producer.flush()


async def consumed(cluster: BrokerCluster, topic: str, count: int, **options: Any) -> list[bytes]:
    """Return a given number of values from a topic, read in a group."""
    values: list[bytes] = []
    given = {"group_id": "g", "auto_offset_reset": "earliest", **options}
    async with Consumer(cluster.bootstrap, topic, **given) as consumer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for record in consumer:
                values.append(record.value or b"")
                if len(values) == count:
                    break
        await consumer.commit()
    return values


async def configure(cluster: BrokerCluster, topic: str, configs: dict[str, str]) -> None:
    """Change a topic's configuration on one of the brokers."""
    done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    core = cluster.brokers[1].core
    core.dynamic_configs.change(ConfigResourceType.TOPIC, topic, lambda before: {**before, **configs}, done.set_result)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await done is None


@pytest.mark.parametrize("protocol", ["3.9", pytest.param("3.4", marks=pytest.mark.thorough)])
def test_life_of_a_partition(protocol: str) -> None:
    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t")
        await produce(cluster, "t", [b"1", b"2"])
        assert await consumed(cluster, "t", 2) == [b"1", b"2"]
        leader = cluster.leader_of("t")
        await cluster.kill(leader)
        await cluster.led("t", [0], isr=2)
        await produce(cluster, "t", [b"3"])
        assert await consumed(cluster, "t", 1) == [b"3"], "the group continues from its offsets"
        await cluster.start(leader)
        await cluster.led("t", [0], isr=3)
        await produce(cluster, "t", [b"4"])
        await cluster.alike("t", [0])
        assert cluster.content(leader, ("t", 0)).count(b"") > 0
        await cluster.alike(CONSUMER_OFFSETS_TOPIC, [0, 1])

    in_cluster(story, inter_broker_protocol_version=protocol)


@pytest.mark.thorough
def test_transactions_over_several_brokers() -> None:
    """Different brokers lead coordinators and partitions, and one of the brokers is lost between two transactions."""

    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t", partitions=6)
        expected: set[bytes] = set()
        killed: list[int] = []
        for number in range(4):
            values = [b"%d-%d" % (number, each) for each in range(12)]
            async with Producer(cluster.bootstrap, transactional_id=f"x{number}") as producer:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    async with producer.transaction():
                        for each, value in enumerate(values):
                            producer.send("t", value, partition=each % 6)
                    expected.update(values)
                    if number == 1:
                        killed.append(cluster.leader_of(TRANSACTION_STATE_TOPIC, 0))
                        await cluster.kill(killed[0])
                        await cluster.led("t", range(6), isr=2)
                        await cluster.led(TRANSACTION_STATE_TOPIC, range(3), isr=2)
                    await producer.begin_transaction()
                    producer.send("t", b"never", partition=0)
                    await producer.flush()
                    await producer.abort_transaction()
        leaders = {cluster.leader_of("t", number) for number in range(6)}
        assert len(leaders) > 1
        await cluster.start(killed[0])
        await cluster.led("t", range(6), isr=3)
        got = await consumed(cluster, "t", len(expected), isolation_level="read_committed")
        assert set(got) == expected
        await cluster.alike("t", range(6))
        await cluster.alike(TRANSACTION_STATE_TOPIC, range(3))

    in_cluster(story)


def test_controlled_shutdown_of_the_controller() -> None:
    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t", partitions=6)
        controller_id = cluster.controller_id
        await produce(cluster, "t", [b"1"] * 6)
        await cluster.stop(controller_id)
        await cluster.led("t", range(6), isr=2)
        await until(lambda: cluster.controller_id in cluster.brokers, "another broker is the controller")
        await produce(cluster, "t", [b"2"] * 6)
        await create(cluster, "u", replicas=2)
        await cluster.start(controller_id)
        await cluster.led("t", range(6), isr=3)
        await cluster.alike("t", range(6))
        assert cluster.controller_id != controller_id
        log = cluster.brokers[controller_id].core.directory
        assert log.was_clean

    in_cluster(story)


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_session_that_ends(is_controller: bool) -> None:
    """The broker keeps its logs and registers again; a controller resigns."""

    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t", partitions=3)
        await produce(cluster, "t", [b"1"] * 3)
        broker_id = next(each for each in cluster.brokers if (each == cluster.controller_id) == is_controller)
        before = cluster.epoch_of(broker_id)
        cluster.expire(broker_id)
        await until(lambda: cluster.epoch_of(broker_id) > before, "the broker is registered again")
        await cluster.led("t", range(3), isr=3)
        await produce(cluster, "t", [b"2"] * 3)
        await cluster.alike("t", range(3))
        assert len(await consumed(cluster, "t", 6)) == 6

    in_cluster(story)


def test_configurations_and_deletions_reach_all_brokers() -> None:
    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t")
        await cluster.led("t", [0], isr=3)
        logs = [broker.core.directory.of("t")[0] for broker in cluster.brokers.values()]
        async with Admin(cluster.bootstrap) as admin, asyncio.timeout(PATIENCE_SECONDS):
            await configure(cluster, "t", {"retention.ms": "1234"})
            await until(lambda: all(log.config.retention_ms == 1234 for log in logs), "all logs have the configuration")
            await admin.delete_topics(["t"])
            await until(
                lambda: all(broker.core.directory.log("t", 0) is None for broker in cluster.brokers.values()),
                "no broker has the log",
            )
            await until(lambda: not cluster.has_node("/admin/delete_topics/t"), "the controller has deleted the topic")
        await create(cluster, "t")
        await produce(cluster, "t", [b"1"])
        assert await consumed(cluster, "t", 1) == [b"1"]

    in_cluster(story)


def test_a_broker_that_is_announced_before_it_stands_for_election(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a broker is busy, it may hear from the controller before its own startup continues."""
    register = Membership.register

    def register_late(membership: Membership, done: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        def registered(epoch: int) -> None:
            if membership.broker_id == 1:
                done(epoch)
            else:
                brokers = membership.image.metadata
                waiting = asyncio.ensure_future(
                    until(lambda: membership.broker_id in brokers.image.brokers, "the broker is up")
                )
                waiting.add_done_callback(lambda _: done(epoch))

        register(membership, registered, failed)

    monkeypatch.setattr(Membership, "register", register_late)

    async def story(cluster: BrokerCluster) -> None:
        assert sorted(cluster.brokers) == [1, 2, 3]

    in_cluster(story)


async def ask(cluster: BrokerCluster, broker_id: int, request: Message, kind: type[R]) -> R:
    """Send a request to a broker."""
    host, _, port = cluster.brokers[broker_id].bootstrap.rpartition(":")
    async with asyncio.timeout(PATIENCE_SECONDS):
        connection = await BrokerConnection.open(TcpNetwork(), Address(host, int(port)), ConnectionSettings())
        try:
            return await response_to(connection, request, kind)
        finally:
            connection.close()


def test_a_move_and_an_election() -> None:
    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t", replicas=2)
        await produce(cluster, "t", [b"1"])
        leader = cluster.leader_of("t")
        (joining,) = {1, 2, 3} - set(cluster.brokers[leader].core.metadata.image.topics["t"].partition(0).replicas)
        controller_id = cluster.controller_id
        move = AlterPartitionReassignmentsRequest.ReassignablePartition(0, [joining, leader])
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic("t", [move])
        moved = await ask(
            cluster,
            controller_id,
            AlterPartitionReassignmentsRequest(topics=[topic]),
            AlterPartitionReassignmentsResponse,
        )
        assert [part.error_code for each in moved.responses for part in each.partitions] == [ErrorCode.NONE]
        await until(
            lambda: all(
                set(broker.core.metadata.image.topics["t"].partition(0).replicas) == {joining, leader}
                for broker in cluster.brokers.values()
            ),
            "the partition has moved",
        )
        listed = await ask(
            cluster, controller_id, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse
        )
        assert listed.topics == ()
        await cluster.led("t", [0], isr=2)
        request = ElectLeadersRequest(topic_partitions=[ElectLeadersRequest.TopicPartitions("t", [0])])
        elected = await ask(cluster, controller_id, request, ElectLeadersResponse)
        assert [part.error_code for each in elected.replica_election_results for part in each.partition_result] == [
            ErrorCode.NONE
        ]
        assert cluster.brokers[controller_id].core.metadata.image.topics["t"].partition(0).leader == joining
        other = next(each for each in cluster.brokers if each != controller_id)
        refused = await ask(cluster, other, request, ElectLeadersResponse)
        assert [part.error_code for each in refused.replica_election_results for part in each.partition_result] == [
            ErrorCode.NOT_CONTROLLER
        ]
        await produce(cluster, "t", [b"2"])
        assert await consumed(cluster, "t", 2) == [b"1", b"2"]
        assert cluster.content(joining, ("t", 0)) == cluster.content(leader, ("t", 0))

    in_cluster(story)


def test_all_brokers_lost() -> None:
    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t", partitions=2)
        await produce(cluster, "t", [b"1", b"2", b"3"])
        for broker_id in list(cluster.brokers):
            await cluster.kill(broker_id)
        for broker_id in cluster.disks:
            await cluster.start(broker_id)
        await cluster.led("t", range(2), isr=3)
        assert sorted(await consumed(cluster, "t", 3)) == [b"1", b"2", b"3"]
        await cluster.alike("t", range(2))

    in_cluster(story)
