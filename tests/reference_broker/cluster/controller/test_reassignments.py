"""A partition moves by adding, syncing and removing replicas; orders are checked.

Method: a scripted cluster; the stored assignment is compared after each phase.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, refusal_of
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_REASSIGNMENTS,
)
from kafkawire.sdk.registry.registry import Create
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_a_reassignment_adds_syncs_and_removes() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (0, 1))
    results: list[object] = []
    cluster.controller.alter_reassignments({T0: (2, 1)}, results.append)
    cluster.settle()
    assert results == [{T0: ACCEPTED}]
    stored = cluster.assignment("t")
    assert (stored.partitions, stored.adding_replicas, stored.removing_replicas) == (
        {0: (2, 1, 0)},
        {0: (2,)},
        {0: (0,)},
    )
    assert cluster.brokers[2].states[T0].is_new
    cluster.alter("t", [0, 1, 2])
    stored = cluster.assignment("t")
    assert (stored.partitions, stored.adding_replicas, stored.removing_replicas) == ({0: (2, 1)}, {}, {})
    assert cluster.state("t").leader == 2
    assert cluster.state("t").isr == (1, 2)
    assert T0 not in cluster.brokers[0].states
    assert not cluster.controller.context.reassigned


def test_a_partition_has_a_leader_at_each_step_of_a_move() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (0, 1))
    cluster.controller.alter_reassignments({T0: (2, 1)}, lambda _: None)
    cluster.settle()
    cluster.alter("t", [0, 1, 2])
    told = [
        (state.leader, list(state.isr))
        for request in cluster.brokers[1].requests
        if isinstance(request, LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert told == [(0, [0, 1]), (0, [0, 1]), (2, [0, 1, 2]), (2, [1, 2])], "moved before it is removed"


def test_a_reassignment_is_cancelled() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (0, 1))
    results: list[object] = []
    cluster.controller.alter_reassignments({T0: (2, 1)}, results.append)
    cluster.controller.alter_reassignments({T0: None}, results.append)
    cluster.controller.alter_reassignments({T0: None}, results.append)
    cluster.settle()
    assert results == [{T0: ACCEPTED}, {T0: ACCEPTED}, {T0: refusal_of(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)}]
    assert set(cluster.assignment("t").partitions[0]) == {0, 1}
    assert T0 not in cluster.brokers[2].states


#: Replicas that are asked for, and whether the order is refused.
WANTED = [((), True), ((1, 1), True), ((-1,), True), ((9,), True), ((1, 0), False)]


@pytest.mark.parametrize(("wanted", "is_refused"), WANTED)
def test_what_may_be_ordered(wanted: tuple[int, ...], is_refused: bool) -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    results: list[object] = []
    cluster.controller.alter_reassignments({T0: wanted}, results.append)
    cluster.settle()
    (result,) = results
    assert isinstance(result, dict)
    assert (result[T0].error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT) is is_refused
    assert cluster.assignment("t").partitions[0] == ((0, 1) if is_refused else wanted)


def test_an_unknown_partition() -> None:
    cluster = Cluster(0)
    results: list[object] = []
    cluster.controller.alter_reassignments({T0: (0,)}, results.append)
    cluster.settle()
    refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    assert results == [{T0: refusal}]


def test_reassignments_are_listed() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0,), (0,))
    cluster.controller.alter_reassignments({T0: (1,)}, lambda _: None)
    listed: list[object] = []
    cluster.controller.list_reassignments(None, listed.append)
    cluster.controller.list_reassignments([TopicPartition("t", 1)], listed.append)
    cluster.settle()
    assert listed == [{T0: ((1, 0), (1,), (0,))}, {}]


def test_a_restarted_target_is_started_again() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0,))
    cluster.controller.alter_reassignments({T0: (1,)}, lambda _: None)
    cluster.settle()
    cluster.kill(1)
    cluster.start(1)
    assert list(cluster.brokers[1].states[T0].adding_replicas) == [1]
    cluster.alter("t", [0, 1])
    assert cluster.assignment("t").partitions == {0: (1,)}


def test_damaged_orders_are_removed(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0)
    cluster.create("t", (0,))
    for content in (b"{", b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}'):
        cluster.tree.change(Create(PARTITION_REASSIGNMENTS.path(), content), 0)
        cluster.settle()
        assert PARTITION_REASSIGNMENTS.path() not in cluster.tree.nodes
    assert cluster.assignment("t").partitions == {0: (0,)}
    assert "since the order cannot be read" in caplog.text
    assert "the reassignment of t-0 is refused" in caplog.text
