"""Reference brokers and nodes of Apache Kafka 3.9.1 or 3.4.1 form one cluster: nothing is lost as each is killed.

Method: run two of our brokers and one of Kafka's, or the reverse, on one real ZooKeeper, with each kind as the
controller. With 3.4.1, every broker has `inter.broker.protocol.version=3.4`, as during a rolling upgrade.
Kafka's own tools create, change, reassign and delete topics. A load runs while the brokers are killed or shut down one
after another; then its counts are checked, and the segments of all replicas are compared byte for byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.sync import Admin, Producer
from tests.kafka.cluster_load import ClusterLoad, segments_equal
from tests.kafka.mixed_cluster import Kind, MixedCluster
from tests.kafka.zookeeper import ZOOKEEPER_RELEASE

OURS, THEIRS = Kind.OURS, Kind.THEIRS

#: The oldest release that brokers of 3.9 are upgraded from here.
OLDER = "3.4.1"

#: The kinds of the brokers, of which the first is the controller, and the release of Kafka's.
CLUSTERS = [
    *((kinds, ZOOKEEPER_RELEASE) for kinds in ((OURS, OURS, THEIRS), (THEIRS, OURS, OURS))),
    *((kinds, ZOOKEEPER_RELEASE) for kinds in ((OURS, THEIRS, THEIRS), (THEIRS, OURS, THEIRS))),
    *((kinds, OLDER) for kinds in ((OURS, THEIRS, OURS), (THEIRS, OURS, THEIRS))),
]

TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"
REASSIGNMENTS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

PARTITIONS = 6

#: The smallest value that every release of Kafka accepts.
SEGMENT_BYTES = 1_048_576

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1_200)]


def _name(cluster: tuple[tuple[Kind, ...], str]) -> str:
    kinds, release = cluster
    return "-".join((*(kind.value for kind in kinds), release))


@pytest.fixture(scope="module", params=CLUSTERS, ids=_name)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Each cluster in turn; each test leaves all brokers running."""
    kinds, release = request.param
    protocol = {"inter.broker.protocol.version": "3.4" if release == OLDER else "3.9"}
    folder = tmp_path_factory.mktemp(_name(request.param))
    with MixedCluster(kinds, folder, dict.fromkeys(Kind, protocol), release) as running:
        yield running


def create(cluster: MixedCluster, topic: str, **configs: str) -> None:
    """Create a topic with Kafka's tool."""
    shape = ("--partitions", str(PARTITIONS), "--replication-factor", "3")
    given = [word for name, value in configs.items() for word in ("--config", f"{name.replace('_', '.')}={value}")]
    cluster.run_tool(TOPICS, "--create", "--topic", topic, *shape, *given)
    cluster.await_in_sync(topic)


def fill(cluster: MixedCluster, topic: str, partitions: int) -> None:
    """Write 600 kB to each partition."""
    with Producer(cluster.bootstrap, acks="all") as producer:
        for _ in range(6):
            for number in range(partitions):
                producer.send(topic, os.urandom(100_000), partition=number)
        producer.flush()


def reassign(cluster: MixedCluster, topic: str, replicas: dict[int, list[int]], folder: Path) -> None:
    """Move the replicas of a topic with Kafka's tool and a throttle, and wait until the move is complete."""
    file = folder / "reassignment.json"
    partitions = [{"topic": topic, "partition": number, "replicas": wanted} for number, wanted in replicas.items()]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    order = ("--reassignment-json-file", str(file))
    told = cluster.run_tool(REASSIGNMENTS, "--execute", *order, "--throttle", "10000000")
    assert "The inter-broker throttle limit was set to 10000000 B/s" in told
    with Admin(cluster.bootstrap) as admin:
        cluster.until(lambda: not admin.list_partition_reassignments(), f"{topic} is moved")
    verified = cluster.run_tool(REASSIGNMENTS, "--verify", *order)
    assert verified.count("is completed") == len(replicas), verified
    assert "Clearing topic-level throttles" in verified
    described = cluster.run_tool(TOPICS, "--describe", "--topic", topic)
    for number, wanted in replicas.items():
        assert f"Partition: {number}\t" in described
        assert f"Replicas: {','.join(map(str, wanted))}\t" in described


def test_kafkas_tools_administer_topics(cluster: MixedCluster, tmp_path: Path) -> None:
    topic, ids = "administered", cluster.ids
    create(cluster, topic, retention_ms="7200000")
    fill(cluster, topic, PARTITIONS)

    cluster.run_tool(TOPICS, "--alter", "--topic", topic, "--partitions", "9")
    cluster.await_in_sync(topic)
    assert len(cluster.states(topic)) == 9
    fill(cluster, topic, 9)

    turned = {number: [ids[(number + step) % 3] for step in range(3)] for number in range(9)}
    reassign(cluster, topic, {number: wanted[:2] for number, wanted in turned.items()}, tmp_path)
    cluster.until(lambda: all(len(found) == 6 for found in cluster.partitions_of(topic).values()), "replicas are gone")
    reassign(cluster, topic, {number: wanted[::-1] for number, wanted in turned.items()}, tmp_path)
    assert segments_equal(cluster.folders, [topic]).different == ()

    entity = ("--entity-type", "topics", "--entity-name", topic)
    cluster.run_tool(
        CONFIGS, "--alter", *entity, "--add-config", f"segment.bytes={SEGMENT_BYTES}", "--delete-config", "retention.ms"
    )
    described = cluster.run_tool(CONFIGS, "--describe", *entity)
    assert f"segment.bytes={SEGMENT_BYTES}" in described
    assert "retention.ms" not in described

    def have_rolled() -> bool:
        fill(cluster, topic, 9)
        return all(len(list((folder / f"{topic}-0").glob("*.log"))) > 1 for folder in cluster.folders.values())

    cluster.until(have_rolled, "all brokers have heard of segment.bytes")

    cluster.run_tool(TOPICS, "--delete", "--topic", topic)
    cluster.await_deleted(topic)


def check(cluster: MixedCluster, load: ClusterLoad) -> None:
    """Stop a load, and assert that nothing went wrong."""
    counts = load.finish()
    print(f"{[cluster.kind(broker_id).value for broker_id in cluster.ids]}: {counts}")
    assert counts.wrong == {}
    cluster.await_in_sync(*load.topics)
    segments = segments_equal(cluster.folders, (*load.topics, "__consumer_offsets", "__transaction_state"))
    print(segments)
    assert segments.different == ()


def test_nothing_is_lost_while_each_broker_is_killed(cluster: MixedCluster) -> None:
    doomed = "deleted-later"
    for topic in ("killed", doomed):
        create(cluster, topic)
    cluster.elect(cluster.kind(cluster.ids[0]))
    controller = cluster.controller
    others = [broker_id for broker_id in cluster.ids if broker_id != controller]
    with ClusterLoad(cluster.bootstrap, "killed") as load:
        load.await_progress()
        for broker_id in (*others, controller or 0):
            cluster.kill(broker_id)
            cluster.await_gone(broker_id)
            if broker_id == others[0]:
                cluster.run_tool(TOPICS, "--delete", "--topic", doomed)
            load.await_progress()
            assert cluster.is_being_deleted(doomed) is (broker_id == others[0])
            cluster.start(broker_id)
            load.await_progress()
            cluster.await_deleted(doomed)
        check(cluster, load)


def test_leaders_move_while_each_broker_is_shut_down(cluster: MixedCluster) -> None:
    create(cluster, "stopped")
    with ClusterLoad(cluster.bootstrap, "stopped") as load:
        load.await_progress()
        for broker_id in cluster.ids:
            cluster.await_in_sync(*load.topics)
            assert broker_id in leaders(cluster, load)
            cluster.stop(broker_id)
            assert leaders(cluster, load) <= set(cluster.ids) - {broker_id}
            load.await_progress()
            cluster.start(broker_id)
            load.await_progress()
        check(cluster, load)


def leaders(cluster: MixedCluster, load: ClusterLoad) -> set[int]:
    """Return the brokers that lead partitions of a load; -1 if a partition has no leader."""
    return {state["leader"] for topic in load.topics for state in cluster.states(topic).values()}
