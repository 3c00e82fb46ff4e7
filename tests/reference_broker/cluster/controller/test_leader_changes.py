"""Requested elections take place, or the response says why not; leadership returns to preferred replicas.

Method: elect leaders in a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.controller import (
    FIRST_REBALANCE_DELAY_MS,
)
from kafkawire.reference_broker.cluster.controller.refusals import refusal_of
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_REASSIGNMENTS,
    PREFERRED_REPLICA_ELECTION,
    PartitionReassignments,
    PartitionReplicas,
    PreferredReplicaElection,
)
from kafkawire.sdk.protocol.tables.znodes import TopicPartition as StoredPartition
from kafkawire.sdk.registry.registry import Create
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_orders_in_the_registry_are_carried_out_and_removed() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    order = PreferredReplicaElection((StoredPartition("t", 0), StoredPartition("none", 0)))
    cluster.kill(0)
    cluster.start(0)
    cluster.alter("t", [1, 0])
    assert cluster.state("t").leader == 1
    cluster.tree.change(Create(PREFERRED_REPLICA_ELECTION.path(), PREFERRED_REPLICA_ELECTION.encode(order)), 0)
    cluster.settle()
    assert cluster.state("t").leader == 0
    moves = PartitionReassignments((PartitionReplicas("t", 0, (1, 0)), PartitionReplicas("t", 7, (1,))))
    cluster.tree.change(Create(PARTITION_REASSIGNMENTS.path(), PARTITION_REASSIGNMENTS.encode(moves)), 0)
    cluster.settle()
    assert cluster.assignment("t").partitions == {0: (1, 0)}
    assert PREFERRED_REPLICA_ELECTION.path() not in cluster.tree.nodes
    assert PARTITION_REASSIGNMENTS.path() not in cluster.tree.nodes


def test_unbalanced_leaders_move_back() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.kill(1)
    cluster.start(1)
    cluster.alter("t", [0, 1])
    cluster.fire(FIRST_REBALANCE_DELAY_MS)
    assert cluster.state("t").leader == 1
    results: list[object] = []
    cluster.controller.elect_leaders([T0], ElectionType.PREFERRED, results.append)
    cluster.settle()
    assert results == [{T0: refusal_of(ErrorCode.ELECTION_NOT_NEEDED)}]


#: For each kind of election, the results for four partitions.
RESULTS = {
    ElectionType.PREFERRED: [
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
    ElectionType.UNCLEAN: [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
}


@pytest.mark.parametrize("kind", RESULTS)
def test_the_results_of_an_election(kind: ElectionType) -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (0, 1), (1, 0), (2,))
    cluster.kill(0)
    cluster.kill(2)
    results: list[object] = []
    partitions = [TopicPartition("t", number) for number in range(4)]
    cluster.controller.elect_leaders(partitions, kind, results.append)
    cluster.settle()
    (result,) = results
    assert isinstance(result, dict)
    assert [result[partition].error_code for partition in partitions] == RESULTS[kind]
    strategies = {
        ElectionType.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
        ElectionType.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
    }
    assert (
        result[partitions[2]].message == f"Failed to elect leader for partition t-2 under strategy {strategies[kind]}"
    )


def test_an_admin_may_elect_uncleanly() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (1, 2))
    cluster.kill(2)
    cluster.kill(1)
    cluster.start(2)
    results: list[object] = []
    cluster.controller.elect_leaders(None, ElectionType.UNCLEAN, results.append)
    cluster.settle()
    assert results == [{T0: 2}], "the result is the elected leader"
    assert cluster.state("t").leader == 2


def test_an_admin_learns_the_preferred_leaders() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.kill(1)
    cluster.start(1)
    cluster.alter("t", [0, 1])
    results: list[object] = []
    cluster.controller.elect_leaders([T0], ElectionType.PREFERRED, results.append)
    cluster.settle()
    assert results == [{T0: 1}]


def test_a_damaged_order_is_removed() -> None:
    cluster = Cluster(0)
    cluster.tree.change(Create(PREFERRED_REPLICA_ELECTION.path(), b"{"), 0)
    cluster.settle()
    assert PREFERRED_REPLICA_ELECTION.path() not in cluster.tree.nodes


def test_few_other_leaders_stay() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", *[(1, 0)] * 10)
    cluster.kill(1)
    cluster.start(1)
    cluster.sync("t")
    most = [TopicPartition("t", number) for number in range(9)]
    cluster.controller.elect_leaders(most, ElectionType.PREFERRED, lambda _: None)
    cluster.settle()
    cluster.fire(FIRST_REBALANCE_DELAY_MS)
    assert cluster.state("t", 8).leader == 1
    assert cluster.state("t", 9).leader == 0


def test_each_order_in_the_registry_is_noticed() -> None:
    """The node is watched again even if it does not exist or another order follows immediately."""
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1), (0, 1))
    for _ in range(3):
        cluster.kill(0)
        cluster.start(0)
        cluster.sync("t")
        assert [cluster.state("t", number).leader for number in (0, 1)] == [1, 1]
        for number in (0, 1):
            order = PreferredReplicaElection((StoredPartition("t", number),))
            cluster.tree.change(Create(PREFERRED_REPLICA_ELECTION.path(), PREFERRED_REPLICA_ELECTION.encode(order)), 0)
            cluster.settle()
            assert cluster.state("t", number).leader == 0
        assert PREFERRED_REPLICA_ELECTION.path() not in cluster.tree.nodes
