"""Damaged brokers and topics are left out; others are not affected.

Method: use a scripted cluster whose registry has hostile content.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_REASSIGNMENTS,
    TOPIC,
)
from kafkawire.sdk.registry.registry import Create
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_damage_leaves_other_topics_alone() -> None:
    cluster = Cluster(0, 1)
    cluster.create("good", (1, 0))
    for name, data in (("bad", b"{"), ("empty", b""), ("huge", b"[" * 100)):
        cluster.tree.change(Create(TOPIC.path(name), data), 0)
    cluster.tree.change(Create("/brokers/ids/x", b""), 0)
    cluster.tree.change(Create("/brokers/ids/7", b"[]"), 0)
    cluster.tree.change(Create("/isr_change_notification/isr_change_0000000000", b"!"), 0)
    cluster.tree.change(Create(PARTITION_REASSIGNMENTS.path(), b"!"), 0)
    cluster.settle()
    cluster.kill(0)
    assert cluster.controller.controller_id == 1
    assert cluster.state("good").leader == 1
    cluster.create("more", (1,))
    assert cluster.state("more").leader == 1
