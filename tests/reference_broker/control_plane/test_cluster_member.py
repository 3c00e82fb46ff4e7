"""A broker of a cluster: what reaches its logs from other brokers, the registry, the disk and time.

Method: brokers in this process over one embedded registry; tests/reference_broker/test_cluster.py has longer stories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire import Admin, NewTopic, Producer
from kafkawire.reference_broker.config.cluster_options import RACK_AWARE_SELECTOR
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from tests.reference_broker.broker_cluster import PATIENCE_SECONDS, BrokerCluster, until

RETENTION = {"log.retention.ms": "777"}


def in_cluster(size: int, story: Callable[[BrokerCluster], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with BrokerCluster(size, **options) as cluster:
            async with Admin(cluster.bootstrap) as admin, asyncio.timeout(PATIENCE_SECONDS):
                await admin.create_topics([NewTopic("t", size, size)])
            await cluster.led("t", range(size), isr=size)
            await story(cluster)

    asyncio.run(run())


def replica_of(cluster: BrokerCluster, broker_id: int, number: int = 0) -> ClusterReplica:
    replica = cluster.brokers[broker_id].core.replicas.get("t", number)
    assert isinstance(replica, ClusterReplica)
    return replica


def test_a_follower_that_is_silent_leaves_the_isr() -> None:
    async def story(cluster: BrokerCluster) -> None:
        leader = cluster.controller_id
        number = next(each for each in range(2) if cluster.leader_of("t", each) == leader)
        # Its session goes on, so that only its silence tells.
        await cluster.brokers.pop(3 - leader).kill()
        async with Producer(cluster.bootstrap, acks=1) as producer:
            producer.send("t", b"1", partition=number)
            await producer.flush()
        replica = replica_of(cluster, leader, number)
        await until(lambda: replica.isr == (leader,), "the follower is out of sync")
        assert replica.log.high_watermark == 1

    in_cluster(2, story, replica_lag_time_max_ms=600, replica_fetch_wait_max_ms=100)


def test_defaults_of_brokers_reach_logs() -> None:
    async def story(cluster: BrokerCluster) -> None:
        core, log = cluster.brokers[1].core, replica_of(cluster, 1).log
        done: list[object] = []
        core.dynamic_configs.change(ConfigResourceType.BROKER, "", lambda before: RETENTION, done.append)
        await until(lambda: log.config.retention_ms == 777, "the log has the configuration")
        assert done == [None]

    in_cluster(1, story)


def test_a_failed_log_is_told_to_the_controller() -> None:
    async def story(cluster: BrokerCluster) -> None:
        leader = cluster.leader_of("t")
        replica = replica_of(cluster, leader)
        replica.log.fail(OSError("no disk"))
        await cluster.led("t", [0], isr=1)
        assert replica.role is Role.OFFLINE
        assert cluster.leader_of("t") == 3 - leader

    in_cluster(2, story)


def test_high_watermarks_are_written() -> None:
    async def story(cluster: BrokerCluster) -> None:
        async with Producer(cluster.bootstrap) as producer:
            producer.send("t", b"1", partition=0)
            await producer.flush()
        disk = cluster.disks[1]
        name = "replication-offset-checkpoint"
        await until(
            lambda: name in disk.names("") and b"t 0 1\n" in bytes(disk.open(name).read(0, 1_000)), "it is there"
        )

    in_cluster(1, story, replica_high_watermark_checkpoint_interval_ms=20)


def test_consumers_may_read_from_followers() -> None:
    async def story(cluster: BrokerCluster) -> None:
        leader = cluster.leader_of("t")
        assert replica_of(cluster, leader).preferred_reader("elsewhere", 0) is None
        await until(
            lambda: replica_of(cluster, leader).preferred_reader(f"rack{3 - leader}", 0) == 3 - leader,
            "the leader sends consumers to the follower in their rack",
        )

    in_cluster(2, story, replica_selector_class=RACK_AWARE_SELECTOR)


@pytest.mark.parametrize("kind", [ConfigResourceType.TOPIC, ConfigResourceType.BROKER])
def test_unclean_elections_that_are_allowed_later(kind: ConfigResourceType) -> None:
    async def story(cluster: BrokerCluster) -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic("u", assignments={0: (1, 2)})])
        await cluster.led("u", [0], isr=2)
        await cluster.kill(2)
        await cluster.led("u", [0], isr=1)
        await cluster.kill(1)
        await until(lambda: cluster.leader_of("u") == -1, "the partition has no leader")
        await cluster.start(2)
        assert cluster.leader_of("u") == -1
        name = "u" if kind is ConfigResourceType.TOPIC else ""
        async with Admin(cluster.bootstrap) as admin:
            await admin.incremental_alter_configs(kind, name, {"unclean.leader.election.enable": "true"})
        await until(lambda: cluster.leader_of("u") == 2, "the replica leads that is not in sync")

    in_cluster(3, story)
