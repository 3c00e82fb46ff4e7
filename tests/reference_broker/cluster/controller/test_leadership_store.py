"""Partition leadership is read and written with its epochs; stale and damaged state are distinguished.

Method: read and write the nodes of a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.context import Leadership
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore, StateChangeFailed
from kafkawire.sdk.protocol.tables.znodes import (
    CONTROLLER_EPOCH,
    PARTITION_STATE,
)
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import SetData
from kafkawire.sdk.registry.steps import CheckFailed
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with one partition."""
    cluster = Cluster(0)
    cluster.create("t", (0,))
    return cluster


def store(cluster: Cluster) -> LeadershipStore:
    return LeadershipStore(cluster.controller.context)


def test_what_is_written_is_read(cluster: Cluster) -> None:
    written = Leadership(3, (3, 4), 7, 1)
    writes = cluster.do(cluster.brokers[0].registry, store(cluster).write({T0: written}))
    stored = written._replace(partition_epoch=1, controller_epoch=1)
    assert writes == ({T0: stored}, {}, [])
    content = b'{"controller_epoch":1,"leader":3,"version":1,"leader_recovery_state":1,"leader_epoch":7,"isr":[3,4]}'
    assert cluster.tree.nodes[PARTITION_STATE.path("t", 0)].data == content
    assert cluster.do(cluster.brokers[0].registry, store(cluster).read([T0])) == {T0: stored}


def test_a_stale_write_and_a_missing_node(cluster: Cluster) -> None:
    missing = TopicPartition("u", 0)
    wanted = {T0: Leadership(0, (0,), partition_epoch=9), missing: Leadership(0, (0,))}
    writes = cluster.do(cluster.brokers[0].registry, store(cluster).write(wanted))
    assert writes.stale == [T0]
    assert list(writes.failed) == [missing]
    assert cluster.do(cluster.brokers[0].registry, store(cluster).read([missing])) == {}


def test_a_damaged_node_and_a_later_controller(cluster: Cluster) -> None:
    path = PARTITION_STATE.path("t", 0)
    later = PARTITION_STATE.encode(cluster.state("t")._replace(controller_epoch=2))
    for content, kind in ((b"[]", DamagedZnode), (later, StateChangeFailed)):
        cluster.tree.change(SetData(path, content), 0)
        read = cluster.do(cluster.brokers[0].registry, store(cluster).read_to_change([T0]))
        assert isinstance(read[T0], kind)


def test_a_first_write_that_exists(cluster: Cluster) -> None:
    same = Leadership(0, (0,))
    writes = cluster.do(cluster.brokers[0].registry, store(cluster).create({T0: same}))
    assert list(writes.done) == [T0]
    writes = cluster.do(cluster.brokers[0].registry, store(cluster).create({T0: Leadership(1, (1,))}))
    assert writes.existing == {T0: same._replace(controller_epoch=1)}


def test_another_controller_is_noticed(cluster: Cluster) -> None:
    cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"2"), 0)
    with pytest.raises(CheckFailed):
        cluster.do(cluster.brokers[0].registry, store(cluster).write({T0: Leadership(0, (0,))}))
