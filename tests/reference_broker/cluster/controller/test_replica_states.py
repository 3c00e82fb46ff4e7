"""Replicas start, stop and leave the ISR, and the brokers are informed.

Method: change the states of replicas in a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.context import Replica
from kafkawire.reference_broker.cluster.controller.states import ReplicaState
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_STATE,
)
from kafkawire.sdk.registry.registry import SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_a_dead_leader_is_replaced_and_the_isr_shrinks() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0), (0, 1))
    cluster.kill(1)
    assert cluster.state("t") == (1, 0, 1, (0,), 0)
    assert cluster.state("t", 1) == (1, 0, 1, (0,), 0)
    broker = cluster.brokers[0]
    assert broker.metadata[T0].offline_replicas == [1]
    assert broker.live == [0]
    cluster.start(1)
    assert cluster.brokers[1].states[T0].leader == 0
    assert not cluster.brokers[1].states[T0].is_new


def test_the_last_replica_stays_in_the_isr() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1,))
    cluster.kill(1)
    assert cluster.state("t") == (1, -1, 1, (1,), 0)
    assert cluster.brokers[0].metadata[T0].leader == -1


def test_a_refused_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0)
    cluster.create("t", (0,))
    states = cluster.controller._replica_states
    cluster.do(cluster.brokers[0].registry, states.change([Replica(T0, 0)], ReplicaState.DELETION_STARTED))
    assert "the replica of t-0 on broker 0 is ONLINE and cannot become DELETION_STARTED" in caplog.text


def test_a_leader_does_not_become_new(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0)
    cluster.create("t", (0,))
    del cluster.controller.context.replica_states[Replica(T0, 0)]
    states = cluster.controller._replica_states
    cluster.do(cluster.brokers[0].registry, states.change([Replica(T0, 0)], ReplicaState.NEW))
    assert "is the leader and cannot become NEW" in caplog.text


def test_a_damaged_state_keeps_the_isr(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (1, 0, 2))
    cluster.create("u", (1, 0, 2))
    cluster.tree.change(SetData(PARTITION_STATE.path("t", 0), b"{"), 0)
    cluster.kill(2)
    assert cluster.state("u").isr == (1, 0)
    assert "broker 2 stays in the ISR of t-0" in caplog.text
