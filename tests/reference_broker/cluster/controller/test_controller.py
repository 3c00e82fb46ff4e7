"""The controller drives a cluster through every event of Kafka's, and another controller completes what it began.

Method: scripted brokers and a registry in memory; a program can be stopped after any of its operations.
"""

from __future__ import annotations

from typing import cast

import pytest

from kafkawire.reference_broker.cluster.controller.controller import (
    REELECTION_DELAY_MS,
)
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    PARTITION_REASSIGNMENTS,
    TOPIC,
    TOPIC_DELETION,
    PartitionReassignments,
    PartitionReplicas,
)
from kafkawire.sdk.registry.registry import Create, Delete, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster, EmbeddedTree, Tree

T0 = TopicPartition("t", 0)


def test_one_broker_is_elected_and_the_next_one_takes_over() -> None:
    cluster = Cluster(0, 1)
    assert cluster.controller.controller_id == 0
    assert cluster.tree.nodes[CONTROLLER_EPOCH.path()].data == b"1"
    other = cluster.brokers[1].controller
    assert other is not None
    assert other.controller_id == 0
    cluster.kill(0)
    assert cluster.controller.controller_id == 1
    assert cluster.controller.context.epoch == 2
    assert cluster.brokers[1].live == [1]


def test_an_expired_session_is_replaced() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    answers: list[AlterPartitionResponse] = []
    cluster.controller.alter_partitions(cluster.alter_request("t", [0]), 3, answers.append)
    registry = cluster.brokers[0].registry
    registry.expire()
    assert [each.error_code for each in answers] == [ErrorCode.NOT_CONTROLLER]
    cluster.settle()
    assert cluster.controller.controller_id == 1
    registry.open()
    cluster.settle()
    assert sorted(cluster.controller.context.brokers) == [0, 1]


def test_a_controller_whose_epoch_was_changed_is_elected_again() -> None:
    cluster = Cluster(0)
    cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"9"), 0)
    cluster.create("t", (0,))
    assert CONTROLLER.path() not in cluster.tree.nodes
    cluster.fire(REELECTION_DELAY_MS)
    assert cluster.controller.context.epoch == 10
    assert cluster.state("t").controller_epoch == 10


def test_a_controller_that_lost_its_office_resigns() -> None:
    cluster = Cluster(0, 1)
    cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"9"), 0)
    cluster.tree.change(Delete(CONTROLLER.path()), 0)
    cluster.create("t", (0, 1))
    assert cluster.controller.context.epoch == 10
    assert cluster.state("t").controller_epoch == 10


@pytest.mark.defect
def test_a_failed_event_makes_the_controller_resign(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(0)

    def fail() -> object:
        raise RuntimeError("defect")
        yield

    assert cluster.brokers[0].controller is not None
    monkeypatch.setattr(cluster.brokers[0].controller._topics, "compare", fail)
    monkeypatch.setitem(cluster.brokers[0].controller._by_node, "/brokers/topics", fail)
    cluster.create("t", (0,))
    assert not cluster.brokers[0].controller.is_active
    assert CONTROLLER.path() not in cluster.tree.nodes
    cluster.fire(REELECTION_DELAY_MS)
    assert cluster.controller.context.epoch == 2
    assert cluster.state("t").leader == 0


def scenario(cluster: Cluster) -> None:
    """Make the controller do everything: creation, failure, reassignment, deletion, election."""
    cluster.create("t", (0, 1), (1, 2))
    cluster.create("gone", (0, 1, 2))
    cluster.kill(2)
    cluster.tree.change(Create(TOPIC_DELETION.path("gone")), 0)
    cluster.settle()
    cluster.start(2)
    moves = PartitionReassignments((PartitionReplicas("t", 0, (1, 2)), PartitionReplicas("t", 1, (1,))))
    cluster.tree.change(Create(PARTITION_REASSIGNMENTS.path(), PARTITION_REASSIGNMENTS.encode(moves)), 0)
    cluster.settle()


def finish(cluster: Cluster) -> None:
    """Let a cluster come to its end, and assert that the whole scenario took place."""
    cluster.fire(REELECTION_DELAY_MS)
    cluster.sync("t")
    check(cluster)
    assert TOPIC.path("gone") not in cluster.tree.nodes
    assert cluster.assignment("t").partitions == {0: (1, 2), 1: (1,)}
    assert PARTITION_REASSIGNMENTS.path() not in cluster.tree.nodes


def test_another_controller_completes_what_one_began() -> None:
    whole = Cluster(0, 1, 2)
    registry = whole.brokers[0].registry
    registry.operations_left = 1_000_000
    scenario(whole)
    count = 1_000_000 - registry.operations_left
    assert count > 50
    for stopped_after in range(count):
        cluster = Cluster(0, 1, 2)
        registry = cluster.brokers[0].registry
        registry.operations_left = stopped_after
        scenario(cluster)
        cluster.kill(0)
        cluster.start(0)
        finish(cluster)


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_at_any_operation(fault: Fault) -> None:
    """The connection or the session is lost at each operation in turn, before and after it took effect."""
    count = 0
    is_over = False
    while not is_over:
        tree = EmbeddedTree()
        cluster = Cluster(0, 1, 2, tree=cast(Tree, tree))  # it has what a cluster uses
        controller = cluster.brokers[0].registry.session_id
        left = count

        def plan(call: RegistryCall, controller: int = controller) -> Fault | None:
            nonlocal left
            if call.session_id != controller:
                return None
            left -= 1
            return fault if left == -1 else None

        tree.embedded.plan = plan
        scenario(cluster)
        is_over = left >= 0
        tree.embedded.plan = None
        finish(cluster)
        count += 1
    assert count > 50


def check(cluster: Cluster) -> None:
    """Assert what holds whenever the cluster is at rest."""
    context = cluster.controller.context
    assert sorted(context.brokers) == sorted(cluster.brokers)
    for partition in context.partitions():
        state = cluster.state(*partition)
        assert state.controller_epoch <= context.epoch
        live = [each for each in state.isr if each in cluster.brokers]
        assert (state.leader in live) if live else (state.leader not in cluster.brokers)
        for broker_id in context.assignment(partition).replicas:
            if broker_id in cluster.brokers:
                told = cluster.brokers[broker_id].states[partition]
                assert (told.leader, told.leader_epoch) == (state.leader, state.leader_epoch)
        for broker in cluster.brokers.values():
            assert broker.metadata[partition].leader == state.leader
            assert broker.metadata[partition].leader_epoch == state.leader_epoch
            assert broker.live == sorted(cluster.brokers)
