"""A cluster of three brokers with a real ZooKeeper survives the loss of each member, and its table shows each loss.

Method: start `kafkawire.testing.Cluster` as users would; the producer uses acks=all and awaits each acknowledgement.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire import NewTopic, sync
from kafkawire.commands.cluster.replica_lag import ClusterView, look_at
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.testing import Cluster
from tests.kafka.apache import run_tool
from tests.needs import SPARK

#: A new leader takes over when the killed leader's 6 s session ends, or later on a loaded machine.
TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests; each leaves all members running."""
    SPARK.require()
    with Cluster(brokers=3, options={"min.insync.replicas": 2}) as running:
        yield running


def look(cluster: Cluster) -> ClusterView:
    view = asyncio.run(look_at(cluster.addresses))
    assert view is not None
    return view


def stored(cluster: Cluster, topic: str) -> list[bytes | None]:
    with sync.Consumer(cluster.bootstrap, topic, auto_offset_reset="earliest") as consumer:
        return [record.value for record in consumer.records(stop_at_end=True)]


def test_a_record_outlives_each_broker_in_turn(cluster: Cluster) -> None:
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics(NewTopic("kills", partitions=1))
    sent = []
    with sync.Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=TIMEOUT_MS) as producer:
        for broker in cluster.addresses:
            cluster.kill(broker)
            sent.append(f"without {broker}".encode())
            producer.send("kills", sent[-1]).result()
            assert cluster.states[broker] == "killed"
            cluster.restart(broker)
    assert stored(cluster, "kills") == sent


def test_a_zookeeper_that_is_killed_and_restarted_loses_nothing(cluster: Cluster) -> None:
    with sync.Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=TIMEOUT_MS) as producer:
        producer.send("away", b"before").result()
        cluster.kill("zookeeper")
        producer.send("away", b"meanwhile").result()
        cluster.restart("zookeeper")
        producer.send("away", b"afterwards").result()
    assert stored(cluster, "away") == [b"before", b"meanwhile", b"afterwards"]


def test_the_table_knows_leaders_and_lags(cluster: Cluster) -> None:
    with sync.Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=TIMEOUT_MS) as producer:
        producer.send("shown", b"a").result()
    view = look(cluster)
    assert view.controller in cluster.addresses
    (partition,) = (each for each in view.partitions if each.topic == "shown")
    assert sorted(partition.replicas) == [1, 2, 3]
    assert partition.leader in partition.in_sync
    in_sync = {broker: lag for broker, lag in partition.lags.items() if broker in partition.in_sync}
    assert set(in_sync.values()) == {0}


def test_a_throttled_reassignment(cluster: Cluster) -> None:
    """Kafka's tool sets a throttle, raises it to let the replica move, and removes it."""
    topic, rates = "moving", [f"{side}.replication.throttled.rate" for side in ("leader", "follower")]
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, assignments={0: (1, 2)}, configs={"min.insync.replicas": "1"}))
    with sync.Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=TIMEOUT_MS) as producer:
        for _ in range(100):
            producer.send(topic, bytes(200_000))
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2], "log_dirs": ["any"] * 2}]}

    def reassign(folder: str, *arguments: str) -> str:
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps(plan))
        given = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(path), *arguments]
        result = run_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *given)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def rates_of(broker: int) -> list[str | None]:
        with sync.Admin(cluster.bootstrap) as admin:
            configs = admin.describe_configs(ConfigResourceType.BROKER, str(broker))
            return [configs[name].value for name in rates if name in configs]

    with tempfile.TemporaryDirectory() as folder:
        # A replica first fetches 1 MiB, and then as much as the rate allows in eleven seconds, so 20 MB takes minutes.
        reassign(folder, "--execute", "--throttle", "1000")
        assert rates_of(1) == rates_of(3) == ["1000", "1000"]
        assert "still in progress" in reassign(folder, "--verify", "--preserve-throttles")
        reassign(folder, "--execute", "--additional", "--throttle", "1000000000")
        deadline = time.monotonic() + TIMEOUT_MS / 1_000
        while "still in progress" in reassign(folder, "--verify", "--preserve-throttles"):
            assert time.monotonic() < deadline
        reassign(folder, "--verify")
    assert rates_of(1) == rates_of(3) == []
    (partition,) = (each for each in look(cluster).partitions if each.topic == topic)
    assert sorted(partition.in_sync) == [2, 3]
