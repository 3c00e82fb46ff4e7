"""A topic is deleted on every broker and then in the registry; obstacles merely delay the deletion.

Method: delete topics in a scripted cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kafkawire.reference_broker.cluster.controller import topic_deletions
from kafkawire.reference_broker.cluster.controller.broker_requests import RETRY_BACKOFF_MS
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_REASSIGNMENTS,
    TOPIC,
    TOPIC_DELETION,
    PartitionReassignments,
    PartitionReplicas,
)
from kafkawire.sdk.registry.registry import Create, Delete, Operation, Outcome, RegistryCode
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


def trips_to_delete(count: int) -> int:
    """Return how many times the controller waits for the registry while it deletes a number of topics."""
    cluster = Cluster(0, 1)
    names = [f"t{number}" for number in range(count)]
    for name in names:
        cluster.create(name, (1, 0))
    cluster.unreachable.add(1)
    for name in names:
        cluster.tree.change(Create(TOPIC_DELETION.path(name)), 0)
    cluster.settle()
    registry = cluster.brokers[0].registry
    submit, trips = registry.submit, []

    def counted(operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        trips.append(operations)
        submit(operations, done)

    registry.submit = counted  # type: ignore[method-assign]  # counts the calls
    cluster.unreachable.clear()
    cluster.fire(RETRY_BACKOFF_MS)
    assert not [name for name in names if TOPIC.path(name) in cluster.tree.nodes]
    assert not cluster.controller.context.topics
    return len(trips)


def test_topics_are_deleted_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    one, many = trips_to_delete(1), trips_to_delete(20)
    assert many == one
    monkeypatch.setattr(topic_deletions, "_PARTITIONS_TOGETHER_MAX", 4)
    assert one < trips_to_delete(20) <= 5 * one


def test_a_node_that_cannot_be_deleted_concerns_its_topic() -> None:
    cluster = Cluster(0)
    for name in "tuv":
        cluster.create(name, (0,))
    cluster.brokers[0].registry.error_of = lambda operation: (
        RegistryCode.NO_AUTH if isinstance(operation, Delete) and operation.path == TOPIC.path("u") else None
    )
    for name in "tuv":
        cluster.tree.change(Create(TOPIC_DELETION.path(name)), 0)
    cluster.settle()
    assert [name for name in "tuv" if TOPIC_DELETION.path(name) in cluster.tree.nodes] == ["u"]
    assert list(cluster.controller.context.deletions) == ["u"]
    cluster.brokers[0].registry.error_of = lambda operation: None
    cluster.create("w", (0,))
    cluster.tree.change(Create(TOPIC_DELETION.path("w")), 0)
    cluster.settle()
    assert not cluster.controller.context.topics


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


def test_a_deletion_still_waits_for_a_reassignment_to_a_broker_that_starts() -> None:
    """Otherwise, the reassignment order would outlive the topic and block later orders."""
    cluster = Cluster(0, 1)
    cluster.create("t", (0,))
    path = PARTITION_REASSIGNMENTS.path()
    order = PartitionReassignments((PartitionReplicas("t", 0, (2,)),))
    cluster.tree.change(Create(path, PARTITION_REASSIGNMENTS.encode(order)), 0)
    cluster.settle()
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    cluster.start(2)
    assert TOPIC.path("t") in cluster.tree.nodes
    cluster.sync("t")
    assert not {path, TOPIC.path("t"), TOPIC_DELETION.path("t")} & cluster.tree.nodes.keys()


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
