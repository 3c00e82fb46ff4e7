"""A newly elected controller takes leadership and ISR membership from brokers that restarted before its election.

Method: in a scripted cluster, end the controller together with other brokers, and register some of these again before
the next controller reads anything. Compare the stored leadership with what a living controller would have decided.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kafkawire.reference_broker.cluster.controller.context import Leadership
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore, StoredLeadership
from kafkawire.reference_broker.cluster.controller.restarted_replicas import replace_restarted
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.tables.znodes import BROKER, PARTITION_STATE
from kafkawire.sdk.registry.registry import Create, CreateMode, Operation, RegistryCode, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Broker, Cluster, check

T0 = TopicPartition("t", 0)
ALL = (1, 2, 3)


def cluster_of_four() -> Cluster:
    """Return a cluster with controller 0, and a partition on the other brokers."""
    cluster = Cluster(0, *ALL)
    cluster.create("t", ALL)
    return cluster


def fail_over(cluster: Cluster, gone: Collection[int] = (), restarted: Collection[int] = ()) -> None:
    """End the controller and other brokers, and restart some of them before the next controller is elected."""
    contents = {broker_id: cluster.tree.nodes[BROKER.path(broker_id)].data for broker_id in restarted}
    for broker_id in (cluster.controller.controller_id, *gone, *restarted):
        registry = cluster.brokers.pop(broker_id).registry
        registry.die()
        registry.expire()
    for broker_id, content in contents.items():
        broker = cluster.brokers[broker_id] = Broker(broker_id, cluster.tree.registry())
        path = BROKER.path(broker_id)
        cluster.tree.change(Create(path, content, CreateMode.EPHEMERAL), broker.registry.session_id)
        broker.epoch = cluster.tree.stat(path).czxid
        broker.controller = cluster.controller_for(broker)
        broker.controller.begin()
    cluster.settle()


@pytest.mark.parametrize(
    ("gone", "restarted", "expected"),
    [
        ((), (), (1, 0, ALL)),
        ((), (1,), (2, 1, (2, 3))),
        ((), (3,), (1, 1, (1, 2))),
        ((), (1, 2), (3, 1, (3,))),
        ((), (2, 3), (1, 1, (1,))),
        ((), ALL, (1, 1, ALL)),
        ((1,), (2,), (3, 1, (3,))),
        ((2,), (3,), (1, 1, (1,))),
        ((2,), (1, 3), (1, 1, (1, 3))),
        ((2, 3), (1,), (1, 1, (1,))),
        ((1,), (2, 3), (2, 2, (2, 3))),  # the first epoch has no leader, as in every failover without the leader
    ],
)
def test_who_leads_after_a_failover(
    gone: Collection[int], restarted: Collection[int], expected: tuple[int, int, tuple[int, ...]]
) -> None:
    cluster = cluster_of_four()
    fail_over(cluster, gone, restarted)
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == expected
    check(cluster)


def test_a_restarted_leader_is_never_told_to_lead_in_its_former_epoch() -> None:
    cluster = cluster_of_four()
    fail_over(cluster, restarted=(1,))
    told = [each for each in cluster.brokers[1].requests if isinstance(each, LeaderAndIsrRequest)]
    states = [each.topic_states[0].partition_states[0] for each in told]
    assert [(each.leader, each.leader_epoch) for each in states] == [(2, 1)]


def test_a_decision_after_the_restart_stays() -> None:
    cluster = cluster_of_four()
    cluster.kill(3)
    cluster.start(3)
    cluster.sync("t")
    before = cluster.state("t")
    assert before.isr == ALL
    fail_over(cluster)
    assert cluster.state("t") == before


def test_the_only_replica_gets_a_new_epoch() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1,))
    fail_over(cluster, restarted=(1,))
    assert cluster.state("t") == (2, 1, 1, (1,), 0)


def replace_all(cluster: Cluster) -> None:
    """Have the controller act as if all brokers had restarted since the leadership was stored."""
    context = cluster.controller.context
    read = {T0: StoredLeadership(context.leaderships[T0], zxid=0)}
    registry = cluster.brokers[0].registry
    cluster.do(registry, replace_restarted(context, LeadershipStore(context), read))


def test_topics_to_be_deleted_are_left_alone() -> None:
    cluster = cluster_of_four()
    cluster.controller.context.deletions["t"] = None
    replace_all(cluster)
    assert cluster.state("t").leader_epoch == 0


def test_a_leadership_of_a_later_controller_stays() -> None:
    cluster = cluster_of_four()
    context = cluster.controller.context
    context.leaderships[T0] = context.leaderships[T0]._replace(controller_epoch=context.epoch + 1)
    before = cluster.state("t")
    replace_all(cluster)
    assert cluster.state("t") == before


def test_a_write_in_the_meantime_stays() -> None:
    """Another program's write is newer than all registrations, so it is read again, and left as it is."""
    cluster = cluster_of_four()
    context = cluster.controller.context
    path = PARTITION_STATE.path("t", 0)
    other = cluster.state("t")._replace(isr=(1, 2))
    cluster.tree.change(SetData(path, PARTITION_STATE.encode(other)), 0)
    replace_all(cluster)
    assert cluster.state("t") == other
    assert context.leaderships[T0] == Leadership(1, (1, 2), 0, 0, 1, 1)


def test_a_failed_write_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of_four()

    def error_of(operation: Operation) -> RegistryCode | None:
        return RegistryCode.NO_AUTH if isinstance(operation, SetData) else None

    cluster.brokers[0].registry.error_of = error_of
    replace_all(cluster)
    assert "a restarted broker stays in the ISR of t-0" in caplog.text
    assert cluster.state("t").leader_epoch == 0
