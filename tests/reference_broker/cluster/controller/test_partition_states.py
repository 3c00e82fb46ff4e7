"""Partitions get leaders if their replicas allow it; stored leaders are kept.

Method: change the states of partitions in a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.states import PartitionState
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_STATE,
    TOPIC,
    TopicAssignment,
)
from kafkawire.sdk.registry.registry import Create, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_a_new_topic_gets_leaders_and_its_brokers_are_told() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0), (0, 1))
    assert cluster.state("t") == (1, 1, 0, (1, 0), 0)
    for broker in cluster.brokers.values():
        assert broker.states[T0].leader == 1
        assert broker.states[T0].is_new
        assert broker.metadata[T0].leader == 1


def test_a_partition_without_a_replica_in_sync_waits_for_it() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (1, 2))
    cluster.kill(2)
    cluster.kill(1)
    assert cluster.state("t").leader == -1
    assert cluster.state("t").isr == (1,)
    cluster.start(2)
    assert cluster.state("t").leader == -1
    cluster.start(1)
    assert cluster.state("t").leader == 1


def test_an_unclean_leader_recovers() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (1, 2))
    cluster.kill(2)
    cluster.kill(1)
    cluster.start(2)
    cluster.uncleanly = True
    cluster.controller.allow_unclean_elections()
    cluster.settle()
    assert cluster.state("t").leader == 2
    assert cluster.state("t").isr == (2,)
    assert cluster.state("t").leader_recovery_state == 1


def test_a_state_that_exists_is_adopted() -> None:
    cluster = Cluster(0, 1)
    content = b'{"controller_epoch":0,"leader":7,"version":1,"leader_epoch":4,"isr":[1,7]}'
    for path in ("/brokers/topics/t", "/brokers/topics/t/partitions", "/brokers/topics/t/partitions/0"):
        cluster.tree.change(Create(path), 0)
    cluster.tree.change(Create(PARTITION_STATE.path("t", 0), content), 0)
    topic = TOPIC.encode(TopicAssignment({0: (0, 1)}, bytes(15) + b"t"))
    cluster.tree.change(SetData(TOPIC.path("t"), topic), 0)
    cluster.settle()
    assert cluster.state("t") == (1, 1, 5, (1,), 0)


def test_a_later_controller_is_respected(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    path = PARTITION_STATE.path("t", 0)
    cluster.tree.change(SetData(path, PARTITION_STATE.encode(cluster.state("t")._replace(controller_epoch=9))), 0)
    cluster.kill(1)
    assert cluster.state("t").leader == 1
    assert "was written by a controller with epoch 9; this controller has epoch 1" in caplog.text


@pytest.mark.parametrize(("content", "leader"), [(b"true", 2), (b"false", -1), (b"maybe", -1), (None, -1)])
def test_unclean_leaders_by_the_config_of_the_topic(content: bytes | None, leader: int) -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (1, 2))
    if content is not None:
        config = b'{"version":1,"config":{"unclean.leader.election.enable":"' + content + b'"}}'
        cluster.tree.change(Create("/config/topics/t", config), 0)
    cluster.kill(2)
    cluster.kill(1)
    cluster.start(2)
    assert cluster.state("t").leader == leader


def test_a_damaged_config_elects_no_unclean_leader() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.uncleanly = True
    cluster.create("t", (1, 2))
    cluster.tree.change(Create("/config/topics/t", b"{"), 0)
    cluster.kill(2)
    cluster.kill(1)
    cluster.start(2)
    assert cluster.state("t").leader == -1


def test_a_refused_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0)
    cluster.create("t", (0,))
    states = cluster.controller._partition_states
    cluster.do(cluster.brokers[0].registry, states.change([T0], PartitionState.NEW))
    assert "partition t-0 is ONLINE and cannot become NEW" in caplog.text
    assert cluster.controller.context.partition_states[T0] is PartitionState.ONLINE
