"""Clients keep working while three nodes are paused, killed and restarted, and leaders and coordinators move.

Method: run a producer and a consumer while nodes come and go. Acknowledged records must be read exactly once, each
delivery must be settled in time, and calls must stay within their time limits. Metadata requests are counted on the
wire.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest

from kafkawire import Admin, Consumer, KafkaWireError, NewTopic, Producer, TopicPartition
from kafkawire.errors import DeliveryTimedOut
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address
from tests.kafka.cluster import NODES, KafkaCluster
from tests.kafka.counting import CountingNetwork
from tests.sdk.transport.responses import response_to

TIMEOUT_SECONDS = 90

#: The delay with which deliveries and calls may finish on a machine that also runs three nodes.
GRACE_MS = 100 + 150


class Load:
    """A producer that sends to each partition in turn, and a consumer that reads, until they are stopped.

    Attributes:
        deliveries: the deliveries, keyed by partition and value, each with the time of `send`.
        read: how many times each (offset, value) was received.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int, **options: Any) -> None:
        self.topic, self.partitions = topic, partitions
        self.network = CountingNetwork()
        self.producer = Producer(cluster.bootstrap, network=self.network, **options)
        self.deliveries: list[tuple[int, bytes, Delivery, float]] = []
        self.settled: dict[int, float] = {}
        self.read: Counter[tuple[int, int]] = Counter()
        self.values: dict[tuple[int, int], bytes | None] = {}
        self.stopping = False

    def _settle(self, delivery: Delivery) -> None:
        self.settled[id(delivery)] = time.monotonic()

    async def produce(self, pause_seconds: float = 0.005) -> None:
        """Send until stopped."""
        number = 0
        while not self.stopping:
            for partition in range(self.partitions):
                value = b"%d" % number
                number += 1
                delivery = self.producer.send(self.topic, value, partition=partition, on_delivery=self._settle)
                self.deliveries.append((partition, value, delivery, time.monotonic()))
            await asyncio.sleep(pause_seconds)

    async def consume(self, consumer: Consumer) -> None:
        """Read until cancelled."""
        async for record in consumer:
            self.read[record.partition, record.offset] += 1
            self.values[record.partition, record.offset] = record.value

    async def until_read(self, more: int = 1) -> None:
        """Wait until a further record of every partition has been read."""
        before = Counter(partition for partition, _ in self.read)
        while not all(
            Counter(partition for partition, _ in self.read)[number] >= before[number] + more
            for number in range(self.partitions)
        ):
            await asyncio.sleep(0.05)

    async def finish(self) -> list[tuple[int, int]]:
        """Stop sending, wait for all deliveries, and return the acknowledged records' offsets once all are read."""
        self.stopping = True
        await self.producer.flush()
        stored = []
        for partition, value, delivery, _ in self.deliveries:
            if delivery.exception() is None:
                place = await delivery
                stored.append((partition, place.offset))
                while stored[-1] not in self.read:
                    await asyncio.sleep(0.02)
                assert self.values[stored[-1]] == value
        return stored

    def check_in_time(self, delivery_timeout_ms: int) -> None:
        """Assert that each delivery has been settled in time."""
        took_ms = [(self.settled[id(delivery)] - sent) * 1000 for _, _, delivery, sent in self.deliveries]
        assert max(took_ms) <= delivery_timeout_ms + GRACE_MS


def run(test: Awaitable[None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await test

    asyncio.run(limited())


async def create(cluster: KafkaCluster, topic: str, assignments: dict[int, tuple[int, ...]], **configs: str) -> None:
    """Create a topic with replicas on the given nodes, and wait until every node knows the topic."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics(NewTopic(topic, configs=configs, assignments=assignments))
        await in_sync(admin, topic)


async def in_sync(admin: Admin, topic: str) -> None:
    """Wait until all replicas of a topic are in sync."""
    while True:
        try:
            found = (await admin.describe_topics(topic))[topic].partitions.values()
        except KafkaWireError:
            found = ()
        if found and all(set(each.in_sync) == set(each.replicas) and each.leader for each in found):
            return
        await asyncio.sleep(0.1)


async def coordinator(cluster: KafkaCluster, group: str) -> int:
    """Return the node that coordinates a group."""
    host, port = cluster.bootstrap.split(",")[0].split(":")
    connection = await BrokerConnection.open(TcpNetwork(), Address(host, int(port)), ConnectionSettings())
    try:
        while True:
            request = FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=[group])
            (found,) = (await response_to(connection, request, FindCoordinatorResponse)).coordinators
            if found.node_id in NODES:
                return found.node_id
            await asyncio.sleep(0.1)
    finally:
        connection.close()


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_leaders_move(cluster: KafkaCluster, io: str) -> None:
    async def test() -> None:
        topic = f"moves-{io}"
        await create(cluster, topic, dict.fromkeys(range(3), NODES))
        load = Load(cluster, topic, 3, io=io)
        network = CountingNetwork()
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "io": io}
        async with load.producer, Consumer(cluster.bootstrap, topic, network=network, **options) as consumer:
            tasks = [asyncio.create_task(load.produce()), asyncio.create_task(load.consume(consumer))]
            await load.until_read()
            known = time.monotonic()
            for leader in (2, 3, 1, 2):
                await cluster.lead({TopicPartition(topic, number): leader for number in range(3)})
                await load.until_read(50)
            stored = await load.finish()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert len(stored) == len(load.deliveries) == len(set(stored)), "every record must be stored exactly once"
        assert set(load.read.values()) == {1}
        assert sorted(load.read) == sorted(stored)
        for each in (network, load.network):
            each.check_metadata(known)

    run(test())


@pytest.mark.smoke
def test_acks_0_follows_a_leader_that_moves(cluster: KafkaCluster) -> None:
    async def test() -> None:
        topic = TopicPartition("fire-and-forget", 0)
        await create(cluster, topic.topic, {0: (1, 2, 3)})
        network = CountingNetwork()
        async with (
            Producer(cluster.bootstrap, acks=0, linger_ms=0, network=network) as producer,
            Consumer(cluster.bootstrap) as reader,
        ):

            async def arrives() -> None:
                (end,) = (await reader.end_offsets([topic])).values()
                while (await reader.end_offsets([topic]))[topic] < end + 20:
                    producer.send(topic.topic, b"x", partition=0)
                    await asyncio.sleep(0.02)

            await arrives()
            known = time.monotonic()
            for leader in (2, 3):
                await cluster.lead({topic: leader})
                async with asyncio.timeout(5):
                    await arrives()
        network.check_metadata(known)

    run(test())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_coordinator_is_killed_and_comes_back(cluster: KafkaCluster, protocol: str) -> None:
    async def test() -> None:
        topic = group = f"killed-{protocol}"
        await create(cluster, topic, dict.fromkeys(range(3), NODES))
        load = Load(cluster, topic, 3)
        network = CountingNetwork()
        options: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 200,
            "group_id": group,
            "group_protocol": protocol,
        }
        async with (
            load.producer,
            Consumer(cluster.bootstrap, topic, network=network, **options) as consumer,
        ):
            tasks = [asyncio.create_task(load.produce()), asyncio.create_task(load.consume(consumer))]
            await load.until_read()
            known = time.monotonic()
            node = await coordinator(cluster, group)
            cluster.kill(node)
            await load.until_read(50)
            await consumer.commit(timeout_ms=20_000)
            committed = await consumer.committed(*consumer.assignment)
            assert len(committed) == 3
            await asyncio.to_thread(cluster.restart, node)
            stored = await load.finish()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert len(stored) == len(load.deliveries) == len(set(stored)), "every record must be stored exactly once"
        assert set(load.read.values()) == {1}, "the group did not rebalance"
        for each in (network, load.network):
            each.check_metadata(known)
        async with Admin(cluster.bootstrap) as admin:
            await in_sync(admin, topic)

    run(test())


def test_a_partition_without_a_leader_holds_up_no_other(cluster: KafkaCluster) -> None:
    timeout_ms = 3_000

    async def test() -> None:
        topic = "leaderless"
        await create(cluster, topic, {0: (1,), 1: (3,)}, **{"min.insync.replicas": "1"})
        load = Load(cluster, topic, 2, delivery_timeout_ms=timeout_ms, request_timeout_ms=1_000)
        network = CountingNetwork()
        async with (
            load.producer,
            Consumer(cluster.bootstrap, topic, auto_offset_reset="earliest", network=network) as consumer,
        ):
            tasks = [asyncio.create_task(load.produce(0.02)), asyncio.create_task(load.consume(consumer))]
            await load.until_read()
            known = time.monotonic()
            cluster.kill(3)
            await asyncio.sleep(timeout_ms / 1000 + 3)
            ended = time.monotonic()
            await asyncio.to_thread(cluster.restart, 3)
            await load.until_read(20)
            stored = await load.finish()
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        load.check_in_time(timeout_ms)
        assert {type(each.exception()) for number, _, each, _ in load.deliveries if number == 1} == {
            type(None),
            DeliveryTimedOut,
        }
        led = [load.settled[id(each)] - sent for number, _, each, sent in load.deliveries if number == 0]
        assert max(led) < 1, "records for the partition that has a leader must not wait"
        assert all(each.exception() is None for number, _, each, _ in load.deliveries if number == 0)
        assert len(set(stored)) == len(stored)
        assert set(load.read.values()) == {1}
        for each in (network, load.network):
            each.check_metadata(known)
            asked = [at for at in each.times[ApiKey.METADATA] if known <= at <= ended]
            assert len(asked) <= 15, "the pauses must have grown to a second"

    run(test())


def test_a_node_that_is_paused(cluster: KafkaCluster) -> None:
    timeout_ms = 2_000

    async def timed(call: Awaitable[object], limit_ms: int) -> None:
        begun = time.monotonic()
        await asyncio.gather(call, return_exceptions=True)
        assert (time.monotonic() - begun) * 1000 <= limit_ms + GRACE_MS

    async def test() -> None:
        topic = group = "paused"
        await create(cluster, topic, {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)})
        node = await coordinator(cluster, group)
        load = Load(cluster, topic, 3, delivery_timeout_ms=timeout_ms, request_timeout_ms=1_000)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 1_000}
        consumer = Consumer(cluster.bootstrap, topic, group_id=group, **options)
        await consumer.start()
        async with load.producer:
            tasks = [asyncio.create_task(load.produce()), asyncio.create_task(load.consume(consumer))]
            await load.until_read()
            cluster.pause(node)
            try:
                await timed(consumer.commit(timeout_ms=300), 300)
                await timed(load.producer.flush(), timeout_ms)
                await load.until_read(50)  # by now, its partitions have other leaders
                stored = await load.finish()
                await timed(consumer.close(timeout_ms=500), 500)
            finally:
                cluster.resume(node)
            await asyncio.gather(*tasks)
        load.check_in_time(timeout_ms)
        assert len(set(stored)) == len(stored)
        assert set(load.read.values()) == {1}
        async with Admin(cluster.bootstrap) as admin:
            await in_sync(admin, topic)

    run(test())
