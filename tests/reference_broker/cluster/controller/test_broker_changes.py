"""The controller handles brokers that join, leave, restart, change and shut down, and failed log directories.

Method: change the brokers of a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.controller.context import Replica
from kafkawire.reference_broker.cluster.controller.states import ReplicaState
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BrokerRegistration,
)
from kafkawire.sdk.registry.registry import Create, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_a_controlled_shutdown_moves_leaders() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0), (0, 1), (1,))
    responses: list[ControlledShutdownResponse] = []
    request = ControlledShutdownRequest(1, cluster.brokers[1].epoch)
    cluster.controller.shut_down_broker(request, responses.append)
    cluster.settle()
    assert responses == [ControlledShutdownResponse()]
    assert cluster.state("t") == (1, 0, 1, (0,), 0)
    assert cluster.state("t", 1).isr == (0,)
    assert cluster.state("t", 2).leader == 1
    stale = ControlledShutdownRequest(1, 0)
    cluster.controller.shut_down_broker(stale, responses.append)
    cluster.settle()
    assert responses[-1].error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_restarted_broker_is_told_everything_again() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    registry = cluster.brokers.pop(1).registry
    registry.die()
    registry.expire()
    cluster.start(1)
    assert cluster.state("t") == (1, 0, 1, (0,), 0)
    assert cluster.brokers[1].states[T0].leader == 0
    assert cluster.brokers[1].live == [0, 1]
    assert isinstance(cluster.brokers[1].requests[0], UpdateMetadataRequest)


def test_a_broker_has_its_replicas_before_it_leads() -> None:
    """As in Kafka, brokers are first told the state that their replicas had when they left."""
    cluster = Cluster(0, 1)
    cluster.create("t", (1,))
    cluster.kill(1)
    cluster.start(1)
    told = [each for each in cluster.brokers[1].requests if isinstance(each, LeaderAndIsrRequest)]
    assert [each.topic_states[0].partition_states[0].leader for each in told] == [-1, 1]


def test_other_endpoints_are_told() -> None:
    cluster = Cluster(0, 1)
    content = BROKER.encode(BrokerRegistration({}, {"PLAINTEXT": "PLAINTEXT"}, ("PLAINTEXT://new:1",), timestamp_ms=1))
    count = len(cluster.brokers[0].requests)
    cluster.tree.change(SetData(BROKER.path(1), content), 0)
    cluster.settle()
    (request,) = cluster.brokers[0].requests[count:]
    assert isinstance(request, UpdateMetadataRequest)
    assert [each.endpoints[0].host for each in request.live_brokers] == ["host0", "new"]
    cluster.tree.change(SetData(BROKER.path(1), content), 0)
    cluster.settle()
    assert len(cluster.brokers[0].requests) == count + 1


def test_a_failed_log_directory_moves_the_leader() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.brokers[1].failing.add(T0)
    event = b'{"version":1,"broker":1,"event":1}'
    cluster.tree.change(Create("/log_dir_event_notification/log_dir_event_0000000000", event), 0)
    cluster.tree.change(Create("/log_dir_event_notification/log_dir_event_0000000001", b"{"), 0)
    cluster.settle()
    assert cluster.tree.children("/log_dir_event_notification") == ()
    assert cluster.state("t") == (1, 0, 1, (0,), 0)
    assert cluster.brokers[0].metadata[T0].offline_replicas == [1]


@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"),
    [(9, -1, ErrorCode.BROKER_NOT_AVAILABLE), (1, 0, ErrorCode.STALE_BROKER_EPOCH), (1, -1, ErrorCode.NONE)],
)
def test_which_brokers_may_shut_down(broker_id: int, epoch: int, code: ErrorCode) -> None:
    cluster = Cluster(0, 1)
    responses: list[ControlledShutdownResponse] = []
    cluster.controller.shut_down_broker(ControlledShutdownRequest(broker_id, epoch), responses.append)
    cluster.settle()
    assert responses == [ControlledShutdownResponse(error_code=code)]


def test_partitions_that_cannot_move_are_reported() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.alter("t", [1])
    responses: list[ControlledShutdownResponse] = []
    cluster.controller.shut_down_broker(ControlledShutdownRequest(1), responses.append)
    cluster.settle()
    assert responses[0].remaining_partitions == [ControlledShutdownResponse.RemainingPartition("t", 0)]


def test_a_mended_registration_is_noticed() -> None:
    cluster = Cluster(0, 1)
    content = cluster.tree.nodes[BROKER.path(1)].data
    cluster.tree.change(SetData(BROKER.path(1), b"{"), 0)
    cluster.kill(0)
    cluster.start(0)
    assert sorted(cluster.controller.context.brokers) == [0]
    cluster.tree.change(SetData(BROKER.path(1), content), 0)
    cluster.settle()
    assert sorted(cluster.controller.context.brokers) == [0, 1]


def test_a_response_of_an_earlier_registration_is_ignored() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    controller, epoch = cluster.controller, cluster.brokers[1].epoch
    error = LeaderAndIsrResponse.LeaderAndIsrPartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR)
    response = LeaderAndIsrResponse(partition_errors=[error])
    for broker_epoch, offline in ((epoch - 1, set()), (epoch, {TopicPartition("t", 0)})):
        request = ControlRequest(LeaderAndIsrRequest(broker_epoch=broker_epoch), 7)
        controller._answered(1, request, response)
        cluster.settle()
        assert controller.context.offline_dirs.get(1, set()) == offline


def test_a_dead_broker_that_announces_a_failed_directory_stays_offline() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    cluster.kill(1)
    content = b'{"version":1,"broker":1,"event":1}'
    cluster.tree.change(Create("/log_dir_event_notification/log_dir_event_0000000001", content), 0)
    cluster.settle()
    replica = Replica(TopicPartition("t", 0), 1)
    assert cluster.controller.context.replica_states[replica] is ReplicaState.OFFLINE


def test_a_broker_whose_registration_becomes_unreadable_stays_as_it_was() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    cluster.tree.change(SetData(BROKER.path(1), b"{"), 0)
    cluster.settle()
    cluster.start(2)
    assert cluster.brokers[0].live == [0, 1, 2]
    assert cluster.state("t").leader == 1
    cluster.create("u", (1,))
    assert cluster.brokers[1].states[TopicPartition("u", 0)].leader == 1
    cluster.kill(1)
    assert cluster.brokers[0].live == [0, 2]
    assert cluster.state("t").leader == 0
