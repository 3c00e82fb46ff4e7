"""In a cluster, each item reaches the broker that is responsible for it, also while leaders and coordinators move.

Method: run an in-process cluster of three brokers, and kill one during calls. tests/kafka/test_admin_operations.py
takes the steps of `cluster_steps.py` on three Apache Kafka nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkawire import Admin, NewTopic, OffsetTimestamp, TopicPartition
from kafkawire.sdk.admin.descriptions import ItemResults
from tests.reference_broker.broker_cluster import BrokerCluster
from tests.sdk.admin.cluster_steps import GROUPS, PARTITIONS, prepare, take


def clustered(test: Callable[[BrokerCluster, Admin], Awaitable[None]]) -> None:
    """Run a test with an admin in a cluster of three brokers that has been filled."""

    async def run() -> None:
        async with BrokerCluster() as cluster:
            options: Any = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 50}
            async with Admin(cluster.bootstrap, **options) as admin:
                await prepare(admin, cluster.bootstrap)
                await cluster.led("t", range(len(PARTITIONS)), 3)
                await test(cluster, admin)

    asyncio.run(run())


def test_items_of_all_brokers() -> None:
    async def test(cluster: BrokerCluster, admin: Admin) -> None:
        await take(admin)

    clustered(test)


def test_leaders_and_coordinators_that_move_during_calls() -> None:
    async def test(cluster: BrokerCluster, admin: Admin) -> None:
        groups = (await admin.describe_groups(GROUPS)).values()
        victim = next(group.coordinator_id for group in groups if group.coordinator_id != cluster.controller_id)

        async def call() -> tuple[Any, ...]:
            return await asyncio.gather(
                admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetTimestamp.LATEST)),
                admin.list_group_offsets_of(GROUPS),
                admin.describe_groups(GROUPS),
                admin.describe_producers(PARTITIONS),
            )

        calls = [asyncio.ensure_future(call()) for _ in range(3)]
        await asyncio.sleep(0)
        await cluster.kill(victim)
        calls.append(asyncio.ensure_future(call()))
        for ends, offsets, described, producers in await asyncio.gather(*calls):
            assert {end.offset for end in ends.values()} == {2}
            assert offsets.all().keys() == described.keys() == set(GROUPS)
            assert producers.all().keys() == set(PARTITIONS)
        moved = await admin.describe_groups(GROUPS)
        assert victim not in {group.coordinator_id for group in moved.values()}

    clustered(test)


def test_a_broker_that_stays_down_costs_only_its_own_items() -> None:
    """Topic u has one replica of each partition, so nobody takes over."""

    async def test(cluster: BrokerCluster, admin: Admin) -> None:
        single = [TopicPartition("u", number) for number in range(3)]
        await admin.create_topics(NewTopic("u", assignments={number: (number + 1,) for number in range(3)}))
        await cluster.led("u", range(3), 1)
        (victim,) = sorted({1, 2, 3} - {cluster.controller_id})[:1]
        await cluster.kill(victim)
        results: ItemResults[TopicPartition, int]
        results = await admin.within(1_500).delete_records(dict.fromkeys(single, 0))
        assert {partition.partition + 1 for partition in results.errors} == {victim}
        assert len(results.values) == 2
        (error,) = results.errors.values()
        assert error.retriable

    clustered(test)
