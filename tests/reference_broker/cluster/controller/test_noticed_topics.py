"""The controller notices topics and partitions in the registry, no matter which program wrote them.

Method: write topics to the registry of a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.controller import (
    ControllerSettings,
)
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_STATE,
    TOPIC,
    TOPIC_DELETION,
)
from kafkawire.sdk.registry.registry import Create, Delete, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_partitions_that_are_added_are_noticed() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0,))
    content = TOPIC.encode(cluster.assignment("t")._replace(partitions={0: (0,), 1: (1,)}))
    cluster.tree.change(SetData(TOPIC.path("t"), content), 0)
    cluster.settle()
    assert cluster.state("t", 1).leader == 1


def test_a_topic_without_an_id_gets_one() -> None:
    cluster = Cluster(0)
    cluster.tree.change(Create(TOPIC.path("old"), b'{"version":1,"partitions":{"0":[0]}}'), 0)
    cluster.settle()
    assert cluster.assignment("old").topic_id == (1).to_bytes(16, "big")
    assert cluster.state("old").leader == 0


def test_an_id_belongs_to_one_topic(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0)
    cluster.create("a", (0,))
    cluster.topic_count = 0
    cluster.create("b", (0,))
    assert PARTITION_STATE.path("b", 0) not in cluster.tree.nodes
    assert "ignoring topic b, since its id" in caplog.text


def test_a_damaged_topic_is_used_once_it_is_mended() -> None:
    cluster = Cluster(0)
    cluster.tree.change(Create(TOPIC.path("t"), b"{"), 0)
    cluster.settle()
    assert PARTITION_STATE.path("t", 0) not in cluster.tree.nodes
    cluster.tree.change(SetData(TOPIC.path("t"), b'{"version":1,"partitions":{"0":[0]}}'), 0)
    cluster.settle()
    assert cluster.state("t").leader == 0


def test_a_topic_that_another_program_removed_is_forgotten() -> None:
    cluster = Cluster(0)
    cluster.create("t", (9,))
    cluster.tree.change(Delete(TOPIC.path("t")), 0)
    cluster.settle()
    context = cluster.controller.context
    assert not context.topics
    assert not context.assignments
    assert not context.partition_states
    assert not context.replica_states


def test_a_topic_that_is_deleted_gets_no_partitions() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    cluster.kill(1)
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    content = TOPIC.encode(cluster.assignment("t")._replace(partitions={0: (0, 1), 1: (0,)}))
    cluster.tree.change(SetData(TOPIC.path("t"), content), 0)
    cluster.settle()
    assert cluster.assignment("t").partitions == {0: (0, 1)}


@pytest.mark.parametrize("deletes_topics", [True, False])
def test_marks_without_effect_are_removed(deletes_topics: bool) -> None:
    cluster = Cluster(0, settings=ControllerSettings(0, deletes_topics=deletes_topics))
    cluster.create("t", (0,))
    cluster.tree.change(Create(TOPIC_DELETION.path("none")), 0)
    if not deletes_topics:
        cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    assert cluster.tree.children("/admin/delete_topics") == ()
    assert cluster.state("t").leader == 0
