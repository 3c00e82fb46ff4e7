"""Each of an admin's operations on Apache Kafka has the outcome that the table of steps expects of every broker.

Method: take the steps of `operation_steps.py` on a node of its own; tests/sdk/admin/test_operation_steps.py takes them
on the reference broker. Take them on the only broker of a cluster with a ZooKeeper, Kafka 3.9.1 and ours. Finally, take
those of `cluster_steps.py` on three nodes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kafkawire import Admin
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.cluster import KafkaCluster
from tests.kafka.servers import BROKER_OPTIONS
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.sdk.admin import cluster_steps
from tests.sdk.admin.operation_steps import EXPECTED, run

#: Steps whose outcomes differ in a cluster, because our broker has the APIs of Kafka 4.3 there, too.
NEWER = {
    "list transactions: other pattern",
    "list transactions: pattern",
    "list transactions: wrong pattern",
    "offset EARLIEST_PENDING_UPLOAD",
}


def test_every_step() -> None:
    with ApacheKafka() as node:
        outcomes = asyncio.run(run(node.bootstrap))
    assert {name: outcomes.get(name) for name in EXPECTED} == EXPECTED
    assert outcomes.keys() == EXPECTED.keys()


def test_every_step_in_a_cluster(tmp_path: Path) -> None:
    with ZooKeeper() as zookeeper, ZooKeeperKafka(1, zookeeper.address) as node:
        theirs = asyncio.run(run(node.bootstrap, in_cluster=True))
    options: dict[str, Any] = {
        **BROKER_OPTIONS,
        "broker_id": 1,
        "data_dir": tmp_path,
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_replication_factor": 1,
        "transaction_state_log_min_isr": 1,
    }
    with ZooKeeper() as zookeeper, Broker(zookeeper_connect=zookeeper.address, **options) as broker:
        ours = asyncio.run(run(broker.bootstrap, in_cluster=True))
    assert ours.keys() == theirs.keys()
    assert {name for name, outcome in ours.items() if theirs[name] != outcome} == NEWER


def test_items_of_several_brokers(cluster: KafkaCluster) -> None:
    async def work() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster_steps.prepare(admin, cluster.bootstrap)
            await cluster_steps.take(admin)

    asyncio.run(work())
