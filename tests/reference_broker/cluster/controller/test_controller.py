"""The controller guides a cluster through all of Kafka's events, and another controller can complete what it started.

Method: use scripted brokers and an in-memory registry; a program can be stopped after any of its operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from kafkawire.reference_broker.cluster.controller.broker_requests import RETRY_BACKOFF_MS
from kafkawire.reference_broker.cluster.controller.controller import REELECTION_DELAY_MS
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    CONTROLLER,
    CONTROLLER_EPOCH,
    PARTITION_REASSIGNMENTS,
    PARTITION_STATE,
    TOPIC,
    ControllerRegistration,
)
from kafkawire.sdk.registry.registry import Check, Create, Delete, RegistryCode, SetData, Transaction
from kafkawire.sdk.registry.steps import stat_of
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster, EmbeddedTree, Tree, check, scenario
from tests.thorough import sampled

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


def test_a_controller_resigns_before_another_can_be_elected() -> None:
    """The controller resigns when too many requests are waiting for a broker."""
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    controller = cluster.controller
    controller._overflowed(1)
    while CONTROLLER.path() in cluster.tree.nodes:
        cluster.tree.loop.popleft()()
    assert not controller.is_active
    assert not controller.context.brokers
    cluster.settle()
    assert cluster.controller is cluster.brokers[1].controller
    cluster.create("u", (0, 1))
    assert cluster.state("u").controller_epoch == 2


def test_a_controller_that_resigns_stands_for_election_each_time() -> None:
    cluster = Cluster(0)
    for epoch in (1, 2, 3):
        assert cluster.controller.context.epoch == epoch
        cluster.controller._overflowed(0)
        cluster.settle()
        assert CONTROLLER.path() not in cluster.tree.nodes
        cluster.fire(REELECTION_DELAY_MS)
    assert cluster.controller.context.epoch == 4


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


def raise_(_: object) -> None:
    raise OSError("the client is gone")


@pytest.mark.defect
def test_a_client_that_raises_does_not_keep_the_office() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    request = cluster.alter_request("t", [0])
    cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"9"), 0)
    cluster.controller.alter_partitions(request, 3, raise_)
    cluster.settle()
    assert cluster.controller.context.epoch == 10
    assert cluster.controller.is_idle


@pytest.mark.defect
def test_a_client_that_raises_leaves_a_healthy_controller() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    cluster.controller.alter_partitions(cluster.alter_request("t", [0]), 3, raise_)
    cluster.settle()
    assert cluster.controller.context.epoch == 1


@pytest.mark.defect
def test_a_client_that_raises_at_the_end_of_the_session() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    answers: list[AlterPartitionResponse] = []
    former = cluster.controller
    former.alter_partitions(cluster.alter_request("t", [0]), 3, raise_)
    former.alter_partitions(cluster.alter_request("t", [0]), 3, answers.append)
    cluster.brokers[0].registry.expire()
    assert [each.error_code for each in answers] == [ErrorCode.NOT_CONTROLLER]
    assert not former.is_active
    assert former.is_idle


@pytest.mark.defect
@pytest.mark.parametrize("method", ["connect", "send", "disconnect"])
def test_channels_that_raise(method: str) -> None:
    cluster = Cluster(0, 1, 2)
    cluster.broken.add(method)
    cluster.create("t", (1, 0))
    cluster.kill(1)
    cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"9"), 0)
    cluster.create("u", (0, 2))
    assert not cluster.brokers[0].controller.is_active  # type: ignore[union-attr]  # each broker has one
    cluster.broken.clear()
    cluster.fire(REELECTION_DELAY_MS)
    cluster.fire(RETRY_BACKOFF_MS)
    assert cluster.controller.context.epoch == 10
    assert cluster.state("u").leader == 0
    check(cluster)


@pytest.mark.defect
def test_a_timer_that_raises() -> None:
    cluster = Cluster(0)

    def broken(delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        raise OSError("no timer")

    later, cluster.later = cluster.later, broken  # type: ignore[method-assign]  # the test breaks it
    broker = cluster.start(1)
    cluster.kill(0)
    assert broker.controller is not None
    assert broker.controller.is_active
    cluster.later = later  # type: ignore[method-assign]  # as above


def test_a_registration_that_failed_is_repeated_under_another_controller() -> None:
    cluster = Cluster(0, 1)
    registry = cluster.brokers[0].registry
    registry.expire()
    cluster.settle()
    assert cluster.controller.controller_id == 1
    # A node from a former session, which ZooKeeper did not delete, is in the way.
    cluster.tree.change(Create(BROKER.path(0)), 0)
    registry.open()
    cluster.settle()
    cluster.tree.change(Delete(BROKER.path(0)), 0)
    cluster.settle()
    assert sorted(cluster.controller.context.brokers) == [1]
    cluster.fire(REELECTION_DELAY_MS)
    assert sorted(cluster.controller.context.brokers) == [0, 1]
    assert cluster.controller.controller_id == 1


def test_a_controller_that_is_gone_before_it_is_noticed() -> None:
    cluster = Cluster(0)
    registry = cluster.brokers[0].registry
    cluster.tree.change(Delete(CONTROLLER.path()), 0)
    # Both changes happen before the broker has read anything; the broker is notified only of the first.
    registry.error_of = lambda _: None
    cluster.tree.change(Create(CONTROLLER.path(), CONTROLLER.encode(ControllerRegistration(7, 0))), 0)
    cluster.settle()
    assert cluster.brokers[0].controller.controller_id == 7  # type: ignore[union-attr]  # each broker has one
    cluster.tree.change(Delete(CONTROLLER.path()), 0)
    cluster.tree.loop.clear()  # the broker has not checked again since
    cluster.do(registry, stat_of(CONTROLLER.path(), cluster.brokers[0].controller._watched))  # type: ignore[union-attr]  # each broker has one
    cluster.tree.change(Create(CONTROLLER.path(), CONTROLLER.encode(ControllerRegistration(7, 0))), 0)
    cluster.tree.change(Delete(CONTROLLER.path()), 0)
    cluster.settle()
    assert cluster.controller.controller_id == 0


def test_an_election_that_was_lost_to_a_controller_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(0, 1)
    registry = cluster.brokers[1].registry
    is_overtaken = False

    def overtake(operation: object) -> None:
        nonlocal is_overtaken
        if isinstance(operation, SetData) and operation.path == CONTROLLER_EPOCH.path() and not is_overtaken:
            is_overtaken = True
            cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"5"), 0)

    registry.error_of = overtake
    cluster.kill(0)
    assert is_overtaken
    cluster.fire(REELECTION_DELAY_MS)
    assert cluster.controller.context.epoch == 6


def test_the_office_of_another_broker_is_not_ended() -> None:
    """While a broker cleans up after a failed term, an operator deletes the node and another broker is elected."""
    cluster = Cluster(0, 1)
    registry = cluster.brokers[0].registry
    other = CONTROLLER.encode(ControllerRegistration(7, 0))
    is_taken = False

    def take(operation: object) -> RegistryCode | None:
        nonlocal is_taken
        if isinstance(operation, Transaction | Check) or not isinstance(operation, Delete):
            return None
        if operation.path == CONTROLLER.path() and not is_taken:
            is_taken = True
            cluster.tree.change(Delete(CONTROLLER.path()), 0)
            cluster.tree.change(Create(CONTROLLER.path(), other), 0)
            cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"20"), 0)
        return None

    registry.error_of = take
    cluster.tree.change(SetData(CONTROLLER_EPOCH.path(), b"9"), 0)
    cluster.create("t", (0, 1))
    assert is_taken
    assert cluster.tree.nodes[CONTROLLER.path()].data == other


def finish(cluster: Cluster) -> None:
    """Run a cluster to the end of the scenario, and assert that the whole scenario took place."""
    cluster.fire(REELECTION_DELAY_MS)
    cluster.sync("t")
    check(cluster)
    assert TOPIC.path("gone") not in cluster.tree.nodes
    assert cluster.assignment("t").partitions == {0: (1, 2), 1: (1,)}
    assert PARTITION_REASSIGNMENTS.path() not in cluster.tree.nodes


def test_another_controller_completes_what_one_began(caplog: pytest.LogCaptureFixture) -> None:
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
    assert "cannot become" not in caplog.text, "a step was taken too early"


def test_another_controller_elects_leaders_before_it_completes_a_move(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create("t", (0, 1))
    cluster.controller.alter_reassignments({T0: (2, 1)}, lambda _: None)
    cluster.settle()
    in_sync = PARTITION_STATE.encode(cluster.state("t")._replace(isr=(0, 1, 2)))
    cluster.tree.change(SetData(PARTITION_STATE.path("t", 0), in_sync), 0)
    cluster.kill(0)
    assert cluster.assignment("t").partitions == {0: (2, 1)}
    assert cluster.state("t").isr == (1, 2)
    check(cluster)
    assert "cannot become" not in caplog.text


@pytest.mark.parametrize("fault", sampled(Fault, 4))
def test_a_fault_at_any_operation(fault: Fault) -> None:
    """At each operation in turn, the connection or the session is lost before or after the operation takes effect."""
    count = 0
    is_over = False
    while not is_over:
        tree = EmbeddedTree()
        cluster = Cluster(0, 1, 2, tree=cast(Tree, tree))  # it has everything that a cluster uses
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
