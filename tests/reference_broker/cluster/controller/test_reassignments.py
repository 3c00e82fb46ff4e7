"""A partition moves by adding, syncing and removing replicas; requested moves are checked.

Method: move partitions in a scripted cluster, and compare the stored assignment after each phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkawire.reference_broker.cluster.controller import reassignments
from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, refusal_of
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_REASSIGNMENTS,
    PARTITION_STATE,
    TOPIC,
    PartitionReassignments,
    PartitionReplicas,
)
from kafkawire.sdk.registry.registry import Create, Operation, Outcome, RegistryCode, SetData
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
    assert told == [(0, [0, 1]), (0, [0, 1]), (2, [0, 1, 2]), (2, [1, 2])], "the leader moves before the removal"


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


#: The requested replicas, and whether the request is refused.
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
    assert "since the requested reassignments cannot be read" in caplog.text
    assert "refusing to reassign t-0" in caplog.text


def trips_of(cluster: Cluster, act: Callable[[], object]) -> int:
    """Return the number of times that the controller waits for the registry during an action."""
    registry = cluster.brokers[0].registry
    submit, trips = registry.submit, []

    def counted(operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        trips.append(operations)
        submit(operations, done)

    registry.submit = counted  # type: ignore[method-assign]  # counts the calls
    act()
    cluster.settle()
    registry.submit = submit  # type: ignore[method-assign]  # as before
    return len(trips)


def trips_to_move(topics: int, partitions: int) -> tuple[int, int]:
    """Return the number of round trips for starting a number of moves together, and for cancelling them."""
    cluster = Cluster(0, 1, 2)
    names = [f"t{number}" for number in range(topics)]
    for name in names:
        cluster.create(name, *[(0, 1)] * partitions)
    moved = [TopicPartition(name, number) for name in names for number in range(partitions)]
    results: list[Any] = []

    def alter(replicas: tuple[int, ...] | None) -> None:
        cluster.controller.alter_reassignments(dict.fromkeys(moved, replicas), results.append)

    trips = trips_of(cluster, lambda: alter((2, 1))), trips_of(cluster, lambda: alter(None))
    assert results == [dict.fromkeys(moved, ACCEPTED)] * 2
    assert all(set(each) == {0, 1} for name in names for each in cluster.assignment(name).partitions.values())
    assert not cluster.controller.context.reassigned
    assert not cluster.brokers[2].states
    return trips


def test_partitions_move_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, cancel = trips_to_move(1, 1)
    assert trips_to_move(1, 20) == (begin, cancel)
    # The watch of each topic fires, and the topic is read again.
    assert trips_to_move(4, 5) == (begin + 3, cancel + 3)
    monkeypatch.setattr(reassignments, "MOVES_TOGETHER_MAX", 10)
    assert begin < trips_to_move(1, 20)[0] <= 2 * begin


def test_partitions_end_their_moves_side_by_side() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", *[(0, 1)] * 5)
    moved = [TopicPartition("t", number) for number in range(5)]
    cluster.controller.alter_reassignments(dict.fromkeys(moved, (2, 1)), lambda _: None)
    cluster.settle()
    requests = [cluster.alter_request("t", [0, 1, 2], number) for number in range(5)]
    requests[0].topics[0].partitions = [each for request in requests for each in request.topics[0].partitions]
    assert trips_of(cluster, lambda: cluster.controller.alter_partitions(requests[0], 3, lambda _: None)) < 20
    assert cluster.assignment("t").partitions == dict.fromkeys(range(5), (2, 1))
    assert not cluster.controller.context.reassigned


def fails(cluster: Cluster, path: str) -> None:
    """Make writes to a node fail."""
    cluster.brokers[0].registry.error_of = lambda operation: (
        RegistryCode.NO_AUTH if isinstance(operation, SetData) and operation.path == path else None
    )


U0 = TopicPartition("u", 0)

FAILING = [TOPIC.path("u"), PARTITION_STATE.path("u", 0)]


@pytest.mark.parametrize("path", FAILING)
def test_a_move_that_cannot_begin_concerns_itself(path: str) -> None:
    cluster = Cluster(0, 1)
    for name in "tu":
        cluster.create(name, (0,))
    fails(cluster, path)
    results: list[object] = []
    cluster.controller.alter_reassignments({U0: (1,), T0: (1,)}, results.append)
    cluster.settle()
    assert results == [{U0: refusal_of(ErrorCode.UNKNOWN_SERVER_ERROR), T0: ACCEPTED}]
    cluster.alter("t", [0, 1])
    assert cluster.assignment("t").partitions == {0: (1,)}


@pytest.mark.parametrize("path", FAILING)
def test_a_move_that_cannot_end_is_tried_again(path: str) -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("u", (0, 1))
    cluster.controller.alter_reassignments({U0: (0, 2)}, lambda _: None)
    cluster.settle()
    in_sync = PARTITION_STATE.encode(cluster.state("u")._replace(isr=(0, 1, 2)))
    cluster.tree.change(SetData(PARTITION_STATE.path("u", 0), in_sync), 0)
    fails(cluster, path)
    cluster.controller.alter_reassignments({U0: (0, 2)}, lambda _: None)
    cluster.settle()
    assert cluster.assignment("u").removing_replicas == {0: (1,)}
    assert U0 in cluster.controller.context.reassigned
    fails(cluster, "")
    cluster.controller.alter_reassignments({U0: (0, 2)}, lambda _: None)
    cluster.settle()
    assert cluster.assignment("u").partitions == {0: (0, 2)}
    assert not cluster.controller.context.reassigned
    assert U0 not in cluster.brokers[1].states


def order(cluster: Cluster, kind: type[Create | SetData], *moves: PartitionReplicas) -> None:
    """Write reassignment orders as old tools do."""
    content = PARTITION_REASSIGNMENTS.encode(PartitionReassignments(moves))
    cluster.tree.change(kind(PARTITION_REASSIGNMENTS.path(), content), 0)
    cluster.settle()


def test_each_order_in_the_registry_is_noticed() -> None:
    """The node is watched again, whether it contains orders or does not exist."""
    cluster = Cluster(0, 1)
    cluster.create("t", (0,), (0,))
    first, second = PartitionReplicas("t", 0, (1,)), PartitionReplicas("t", 1, (1,))
    for _ in range(2):
        order(cluster, Create, first)
        order(cluster, SetData, first, second)
        assert [replicas for _, replicas in sorted(cluster.assignment("t").adding_replicas.items())] == [(1,), (1,)]
        cluster.sync("t")
        assert cluster.assignment("t").partitions == {0: (1,), 1: (1,)}
        assert PARTITION_REASSIGNMENTS.path() not in cluster.tree.nodes
        cluster.controller.alter_reassignments(dict.fromkeys((T0, TopicPartition("t", 1)), (0,)), lambda _: None)
        cluster.settle()
        cluster.sync("t")
        assert cluster.assignment("t").partitions == {0: (0,), 1: (0,)}


def test_a_topic_is_written_with_its_version() -> None:
    """Another program adds a partition, which the controller does not yet know about when it stores a move."""
    cluster = Cluster(0, 1)
    cluster.create("t", (0,))
    added = cluster.assignment("t")._replace(partitions={0: (0,), 1: (1,)})
    cluster.tree.change(SetData(TOPIC.path("t"), TOPIC.encode(added)), 0)
    cluster.controller.alter_reassignments({T0: (1,)}, lambda _: None)
    cluster.settle()
    stored = cluster.assignment("t")
    assert (stored.partitions, stored.adding_replicas) == ({0: (1, 0), 1: (1,)}, {0: (1,)})
    assert cluster.state("t", 1).leader == 1
    cluster.alter("t", [0, 1])
    assert cluster.assignment("t").partitions == {0: (1,), 1: (1,)}
