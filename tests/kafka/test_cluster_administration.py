"""Every admin method works on a cluster of three Apache Kafka nodes, and reports errors for individual items.

Method: run the same tests on the current release and on 3.9 with ZooKeeper, which lacks some of the versions and
requires some requests to be sent to the controller. A throttle keeps a reassignment from finishing before it is listed
and cancelled.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from kafkawire import (
    Admin,
    AlterConfigOperation,
    BrokerError,
    ConfigChange,
    ConfigResourceType,
    ElectionType,
    ErrorCode,
    NewPartitions,
    NewTopic,
    Partition,
    Producer,
    TopicPartition,
    TopicPartitionReplica,
)
from kafkawire.errors import KafkaWireError, UnsupportedVersion
from tests.kafka.cluster import NODES, KafkaCluster
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka

BROKER, LOGGER, TOPIC = ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.TOPIC

TIMEOUT_SECONDS = 120

#: More data than a follower fetches before its throttle takes effect.
RECORDS = [os.urandom(900_000) for _ in range(4)]


class Cluster(NamedTuple):
    """Three nodes, with the ids of `NODES`.

    Attributes:
        bootstrap: their addresses.
        has_zookeeper: whether they run release 3.9, with two log directories each.
    """

    bootstrap: str
    has_zookeeper: bool


@pytest.fixture(scope="module", params=["raft", "zookeeper"])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each cluster in turn; each test uses its own topics."""
    with ExitStack() as stack:
        if request.param == "raft":
            yield Cluster(stack.enter_context(KafkaCluster()).bootstrap, has_zookeeper=False)
            return
        zookeeper = stack.enter_context(ZooKeeper())
        brokers = []
        for node_id in NODES:
            folder = tmp_path_factory.mktemp(f"node-{node_id}")
            settings = {
                "log.dirs": f"{folder / 'a'},{folder / 'b'}",
                "auto.leader.rebalance.enable": "false",
                "controlled.shutdown.enable": "false",  # shutdown would wait for nodes that no longer exist
            }
            brokers.append(stack.enter_context(ZooKeeperKafka(node_id, zookeeper.address, settings)))
        yield Cluster(",".join(broker.bootstrap for broker in brokers), has_zookeeper=True)


def administering(nodes: Cluster, test: Callable[[Admin], Awaitable[None]]) -> None:
    """Run a test with an admin client, within a time limit."""

    async def run() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS), Admin(nodes.bootstrap) as admin:
            while len((await admin.describe_cluster()).brokers) < len(NODES):
                pass
            await test(admin)

    asyncio.run(run())


async def until(
    admin: Admin,
    partition: TopicPartition,
    is_so: Callable[[Partition], bool],
    *,
    include_eligible_leaders: bool = False,
) -> Partition:
    """Wait until a partition is described as wanted, and return its description."""
    while True:
        try:
            topics = await admin.describe_topics(partition.topic, include_eligible_leaders=include_eligible_leaders)
            described = topics[partition.topic].partitions
        except BrokerError:  # not every node knows the topic yet
            continue
        if partition.partition in described and is_so(described[partition.partition]):
            return described[partition.partition]


def codes(errors: dict[TopicPartition, KafkaWireError]) -> dict[TopicPartition, ErrorCode]:
    """Return the error codes that the brokers sent."""
    return {item: error.code for item, error in errors.items() if isinstance(error, BrokerError)}


def test_the_cluster_and_its_features(nodes: Cluster) -> None:
    async def test(admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert cluster.brokers.keys() == set(NODES)
        assert cluster.controller_id in NODES
        for node_id in (None, *NODES):
            features = await admin.describe_features(node_id)
            assert ("metadata.version" in features.finalized) is not nodes.has_zookeeper

    administering(nodes, test)


def test_topics_and_partitions(nodes: Cluster) -> None:
    async def test(admin: Admin) -> None:
        await admin.create_topics(
            NewTopic("placed", assignments={0: (2, 1), 1: (3, 2)}), NewTopic("counted", 1, replication_factor=2)
        )
        assert len((await until(admin, TopicPartition("counted", 0), lambda each: True)).replicas) == 2
        tried = await admin.create_partitions({"placed": 3}, validate_only=True)
        assert tried.all() == {"placed": None}
        results = await admin.create_partitions({"placed": NewPartitions(3, ((1, 3),)), "counted": 1})
        assert results.values == {"placed": None}
        (error,) = results.errors.values()
        assert isinstance(error, BrokerError)
        assert error.code is ErrorCode.INVALID_PARTITIONS
        added = await until(admin, TopicPartition("placed", 2), lambda each: set(each.in_sync) == {1, 3})
        assert (added.replicas, added.offline) == ((1, 3), ())

    administering(nodes, test)


def test_eligible_leaders(nodes: Cluster) -> None:
    async def test(admin: Admin) -> None:
        await admin.create_topics(NewTopic("eligible", assignments={0: (1, 2)}))
        await until(admin, TopicPartition("eligible", 0), lambda each: True)
        if nodes.has_zookeeper:
            with pytest.raises(UnsupportedVersion, match=r"Apache Kafka 3\.8 or later, without ZooKeeper"):
                await admin.describe_topics("eligible", include_eligible_leaders=True)
            return
        described = await until(admin, TopicPartition("eligible", 0), lambda each: True, include_eligible_leaders=True)
        assert described.eligible_leaders == ()

    administering(nodes, test)


def test_a_reassignment_is_started_listed_cancelled_and_done(nodes: Cluster) -> None:
    moving, missing = TopicPartition("moving", 0), TopicPartition("moving", 7)
    throttles = {"follower.replication.throttled.rate": "1"}

    async def test(admin: Admin) -> None:
        configs = {"min.insync.replicas": "1", "follower.replication.throttled.replicas": "*"}
        await admin.create_topics(NewTopic("moving", configs=configs, assignments={0: (1,)}))
        async with Producer(nodes.bootstrap) as producer:
            for value in RECORDS:
                await producer.send("moving", value, partition=0)
        for node_id in (2, 3):
            await admin.incremental_alter_configs(BROKER, str(node_id), throttles)
        results = await admin.alter_partition_reassignments({moving: [2, 3], missing: [1]})
        assert (results.values, codes(results.errors)) == (
            {moving: None},
            {missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )
        ongoing = await admin.list_partition_reassignments()
        assert await admin.list_partition_reassignments(moving, missing) == ongoing
        assert set(ongoing[moving].adding_replicas) == {2, 3}
        assert ongoing[moving].removing_replicas == (1,)
        assert (await admin.alter_partition_reassignments({moving: None})).all() == {moving: None}
        assert await admin.list_partition_reassignments() == {}
        again = await admin.alter_partition_reassignments({moving: None})
        assert codes(again.errors) == {moving: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        for node_id in (2, 3):
            await admin.incremental_alter_configs(BROKER, str(node_id), dict.fromkeys(throttles))
        (await admin.alter_partition_reassignments({moving: [2, 3]})).all()
        while await admin.list_partition_reassignments(moving):
            pass
        assert (await until(admin, moving, lambda each: len(each.replicas) == 2)).replicas == (2, 3)

    administering(nodes, test)


def test_the_replication_factor_is_guarded(nodes: Cluster) -> None:
    guarded = TopicPartition("guarded", 0)

    async def test(admin: Admin) -> None:
        await admin.create_topics(NewTopic("guarded", assignments={0: (1, 2)}))
        if nodes.has_zookeeper:
            with pytest.raises(UnsupportedVersion, match=r"Apache Kafka 4\.1 or later"):
                await admin.alter_partition_reassignments({guarded: [1]}, allow_replication_factor_change=False)
            return
        results = await admin.alter_partition_reassignments({guarded: [1]}, allow_replication_factor_change=False)
        assert codes(results.errors) == {guarded: ErrorCode.INVALID_REPLICATION_FACTOR}

    administering(nodes, test)


def test_leaders_are_elected(nodes: Cluster) -> None:
    led, missing = TopicPartition("led", 0), TopicPartition("led", 7)

    async def test(admin: Admin) -> None:
        await admin.create_topics(NewTopic("led", assignments={0: (1, 2)}))
        await until(admin, led, lambda each: each.leader == 1 and set(each.in_sync) == {1, 2})
        (await admin.alter_partition_reassignments({led: [2, 1]})).all()
        await until(admin, led, lambda each: each.replicas == (2, 1))
        results = await admin.elect_leaders(ElectionType.PREFERRED, led, missing)
        assert (results.values, codes(results.errors)) == (
            {led: True},
            {missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )
        await until(admin, led, lambda each: each.leader == 2)
        for kind in ElectionType:
            assert (await admin.elect_leaders(kind, led)).all() == {led: False}
        assert led not in (await admin.elect_leaders(ElectionType.PREFERRED, all_partitions=True)).all()

    administering(nodes, test)


def test_log_directories(nodes: Cluster) -> None:
    place = TopicPartition("stored", 0)

    async def test(admin: Admin) -> None:
        await admin.create_topics(NewTopic("stored", assignments={0: NODES}))
        await until(admin, place, lambda each: set(each.in_sync) == set(NODES))
        # A node may be listed as in sync shortly before it describes its replica.
        described = (await admin.describe_log_dirs()).all()
        while any(all(place not in each.replicas for each in log_dirs.values()) for log_dirs in described.values()):
            described = (await admin.describe_log_dirs()).all()
        assert described.keys() == set(NODES)
        moves = {}
        for node_id, log_dirs in described.items():
            assert all(log_dir.error is None and log_dir.total_bytes for log_dir in log_dirs.values())
            (home,) = (path for path, log_dir in log_dirs.items() if place in log_dir.replicas)
            moves[TopicPartitionReplica(*place, node_id)] = next((path for path in log_dirs if path != home), home)
        unknown = TopicPartitionReplica("stored", 0, NODES[0])
        wrong = await admin.alter_replica_log_dirs({unknown: "/nowhere"})
        assert [error.code for error in wrong.errors.values() if isinstance(error, BrokerError)] == [
            ErrorCode.LOG_DIR_NOT_FOUND
        ]
        assert (await admin.alter_replica_log_dirs(moves)).all() == dict.fromkeys(moves)
        for replica, path in moves.items():
            while True:
                log_dir = (await admin.describe_log_dirs(replica.node_id)).all()[replica.node_id][path]
                if place in log_dir.replicas and not log_dir.replicas[place].is_future:
                    break

    administering(nodes, test)


def test_configurations(nodes: Cluster) -> None:
    async def value(admin: Admin, kind: ConfigResourceType, name: str, key: str) -> str | None:
        return (await admin.describe_configs(kind, name, key))[key].value

    async def becomes(admin: Admin, kind: ConfigResourceType, name: str, key: str, wanted: str) -> None:
        while await value(admin, kind, name, key) != wanted:  # brokers learn of the change shortly afterwards
            pass

    async def test(admin: Admin) -> None:
        await admin.create_topics(NewTopic("configured", assignments={0: (1,)}))
        await until(admin, TopicPartition("configured", 0), lambda each: True)
        append = ConfigChange("cleanup.policy", "compact", AlterConfigOperation.APPEND)
        await admin.incremental_alter_configs(TOPIC, "configured", [append, ConfigChange("retention.ms", "5000")])
        await becomes(admin, TOPIC, "configured", "cleanup.policy", "delete,compact")
        await admin.alter_configs(TOPIC, "configured", {"retention.ms": "6000"})
        await becomes(admin, TOPIC, "configured", "cleanup.policy", "delete")
        await becomes(admin, TOPIC, "configured", "retention.ms", "6000")
        with pytest.raises(BrokerError, match="INVALID_CONFIG: configuration of topic configured"):
            await admin.incremental_alter_configs(TOPIC, "configured", {"retention.ms": "x"}, validate_only=True)
        key = "log.retention.ms"
        await admin.incremental_alter_configs(BROKER, "", {key: "7000000"})
        for node_id in NODES:
            await admin.incremental_alter_configs(BROKER, str(node_id), {key: f"800000{node_id}"})
            await admin.incremental_alter_configs(LOGGER, str(node_id), {"kafka.server.KafkaApis": "ERROR"})
        for node_id in NODES:
            await becomes(admin, BROKER, str(node_id), key, f"800000{node_id}")
            await becomes(admin, LOGGER, str(node_id), "kafka.server.KafkaApis", "ERROR")
            await admin.alter_configs(BROKER, str(node_id), {})
            await becomes(admin, BROKER, str(node_id), key, "7000000")
        await admin.incremental_alter_configs(BROKER, "", {key: None})

    administering(nodes, test)
