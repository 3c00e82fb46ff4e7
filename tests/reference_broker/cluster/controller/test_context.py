"""A context's answers reflect the state that was put into it.

Method: query small contexts.
"""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.context import Context, Leadership, ReplicaAssignment
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_assignments_of_a_reassignment() -> None:
    moved = ReplicaAssignment((1, 2, 3)).reassigned_to((4, 2))
    assert moved == ((4, 2, 1, 3), (4,), (1, 3))
    assert moved.is_reassigned
    assert moved.origin == (2, 1, 3)
    assert moved.target == (4, 2)
    assert moved.reassigned_to((5,)) == ((5, 2, 1, 3), (5,), (2, 1, 3))
    assert moved.without(4) == ((2, 1, 3), (), (1, 3))
    assert not ReplicaAssignment((1,)).is_reassigned


def test_online_replicas() -> None:
    cluster = Cluster(0, 1)
    context = cluster.controller.context
    context.shutting_down.add(1)
    context.offline_dirs[0] = {T0}
    assert not context.is_online(0, T0)
    assert context.is_online(0, TopicPartition("t", 1))
    assert not context.is_online(1, T0)
    assert context.is_online(1, T0, or_shutting_down=True)
    assert not context.is_online(9, T0, or_shutting_down=True)
    assert context.live_ids() == [0]


def test_ids_are_unique() -> None:
    context = Context()
    assert context.add_topic_id("t", b"1")
    assert context.add_topic_id("t", b"1")
    assert not context.add_topic_id("t", b"2")
    assert not context.add_topic_id("u", b"1")


def test_a_removed_topic_leaves_nothing() -> None:
    cluster = Cluster(0)
    cluster.create("t", (0, 5))
    context = cluster.controller.context
    context.offline_dirs[0] = {T0}
    context.remove_topic("t")
    assert not context.topics
    assert not context.topic_ids
    assert not context.topic_names
    assert not context.leaderships
    assert not context.partition_states
    assert not context.replica_states
    assert not context.offline_dirs[0]


def test_counts() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0), (0, 1), (1,))
    cluster.kill(1)
    context = cluster.controller.context
    assert context.offline_partition_count() == 1
    assert context.imbalance_count() == 2
    assert context.epoch_to_stop(T0) == 1
    assert context.epoch_to_stop(TopicPartition("u", 0)) == -1
    context.deletions["t"] = None
    assert context.epoch_to_stop(T0) == -2
    assert context.imbalance_count() == 0


def test_an_added_preferred_replica_is_no_imbalance_until_it_is_in_sync() -> None:
    context = Context()
    context.assign(T0, ReplicaAssignment((1,)).reassigned_to((2, 1)))
    context.leaderships[T0] = Leadership(1, (1,))
    assert context.imbalance_count() == 0
    context.leaderships[T0] = Leadership(1, (1, 2))
    assert context.imbalance_count() == 1
