"""A topic is deleted on every broker, then in the registry; an obstacle only delays it.

Method: a scripted cluster.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.znodes import (
    TOPIC,
    TOPIC_DELETION,
)
from kafkawire.sdk.registry.registry import Create
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_a_marked_topic_is_deleted() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0), (0, 1))
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    assert not [path for path in cluster.tree.nodes if path.endswith("/t") or "/t/" in path]
    for broker in cluster.brokers.values():
        assert not broker.states
        assert not broker.metadata
    assert not cluster.controller.context.replica_states


def test_a_deletion_waits_for_a_dead_broker() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.kill(1)
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    assert TOPIC.path("t") in cluster.tree.nodes
    cluster.start(1)
    assert TOPIC.path("t") not in cluster.tree.nodes


def test_a_replica_that_cannot_be_deleted_is_retried_when_its_broker_restarts() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.brokers[1].undeletable.add(T0)
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    assert TOPIC.path("t") in cluster.tree.nodes
    cluster.kill(1)
    cluster.start(1)
    assert TOPIC.path("t") not in cluster.tree.nodes


def test_a_deletion_waits_for_a_reassignment() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0,))
    cluster.controller.alter_reassignments({T0: (1,)}, lambda _: None)
    cluster.settle()
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    assert TOPIC.path("t") in cluster.tree.nodes
    cluster.alter("t", [0, 1])
    assert TOPIC.path("t") not in cluster.tree.nodes
    assert not cluster.brokers[0].states


def test_a_broker_that_dies_meanwhile() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.unreachable.add(1)
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    assert not cluster.brokers[0].states
    cluster.kill(1)
    cluster.unreachable.clear()
    cluster.start(1)
    assert TOPIC.path("t") not in cluster.tree.nodes
