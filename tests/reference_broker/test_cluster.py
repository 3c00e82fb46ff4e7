"""Brokers of one cluster: records, groups and transactions survive a broker, and replicas are the same byte by byte.

Method: three brokers in this process, on real sockets, over one embedded registry; the clients of the SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kafkawire import Admin, Consumer, NewTopic, Producer
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC
from tests.reference_broker.broker_cluster import PATIENCE_SECONDS, BrokerCluster


def in_cluster(story: Callable[[BrokerCluster], Awaitable[None]], **options: object) -> None:
    """Tell a story in a cluster of three brokers."""

    async def run() -> None:
        async with BrokerCluster(**options) as cluster:
            await story(cluster)

    asyncio.run(run())


async def create(cluster: BrokerCluster, name: str, partitions: int = 1, replicas: int = 3) -> None:
    async with Admin(cluster.bootstrap) as admin, asyncio.timeout(PATIENCE_SECONDS):
        await admin.create_topics([NewTopic(name, partitions, replicas)])


async def produce(cluster: BrokerCluster, topic: str, values: list[bytes], **options: object) -> None:
    async with Producer(cluster.bootstrap, acks="all", **options) as producer, asyncio.timeout(PATIENCE_SECONDS):
        for value in values:
            await producer.send(topic, value)
        await producer.flush()


async def consumed(cluster: BrokerCluster, topic: str, count: int, **options: object) -> list[bytes]:
    """Return so many values of a topic, in a group."""
    values: list[bytes] = []
    given = {"group_id": "g", "auto_offset_reset": "earliest", **options}
    async with Consumer(cluster.bootstrap, topic, **given) as consumer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for record in consumer:
                values.append(record.value)
                if len(values) == count:
                    break
        await consumer.commit()
    return values


def test_life_of_a_partition() -> None:
    async def story(cluster: BrokerCluster) -> None:
        await create(cluster, "t")
        await produce(cluster, "t", [b"1", b"2"])
        assert await consumed(cluster, "t", 2) == [b"1", b"2"]
        leader = cluster.leader_of("t")
        await cluster.kill(leader)
        await cluster.led("t", [0], isr=2)
        await produce(cluster, "t", [b"3"])
        assert await consumed(cluster, "t", 1) == [b"3"], "the group goes on where it was"
        await cluster.start(leader)
        await cluster.led("t", [0], isr=3)
        await produce(cluster, "t", [b"4"])
        await cluster.alike("t", [0])
        assert cluster.content(leader, ("t", 0)).count(b"") > 0
        await cluster.alike(CONSUMER_OFFSETS_TOPIC, [0, 1])

    in_cluster(story)
