"""AlterPartition is checked as in Apache Kafka, and announcements by leaders that run old releases are read.

Method: send a table of requests for a single partition; then use a scripted cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import PARTITION_STATE
from kafkawire.sdk.registry.registry import Create, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with a partition in leader epoch 1 and partition epoch 2."""
    cluster = Cluster(0, 1, 2, 3)
    cluster.create("t", (1, 0, 2))
    cluster.kill(1)
    cluster.start(1)
    cluster.alter("t", [0, 2, 1])
    return cluster


def ask(cluster: Cluster, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    responses: list[AlterPartitionResponse] = []
    cluster.controller.alter_partitions(request, version, responses.append)
    cluster.settle()
    (response,) = responses
    return response


#: The changes to a valid request, its version, and the resulting error.
CASES: list[tuple[dict[str, Any], int, ErrorCode]] = [
    ({}, 3, ErrorCode.NONE),
    ({}, 2, ErrorCode.NONE),
    ({}, 1, ErrorCode.NONE),
    ({"partition_epoch": 3}, 3, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": 2}, 3, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": 0}, 3, ErrorCode.FENCED_LEADER_EPOCH),
    ({"partition_epoch": 1}, 3, ErrorCode.INVALID_UPDATE_VERSION),
    ({"partition_epoch": 1, "isr": [0, 2, 1]}, 3, ErrorCode.NONE),
    ({"leader_recovery_state": 1, "isr": [0, 1]}, 3, ErrorCode.INVALID_REQUEST),
    ({"leader_recovery_state": 1, "isr": [0]}, 3, ErrorCode.INVALID_REQUEST),
    ({"leader_recovery_state": 5}, 3, ErrorCode.INVALID_REQUEST),
    ({"isr": [0, 9]}, 3, ErrorCode.INELIGIBLE_REPLICA),
    ({"isr": [0, 9]}, 1, ErrorCode.OPERATION_NOT_ATTEMPTED),
    ({"isr": [0, 3]}, 3, ErrorCode.INELIGIBLE_REPLICA),
    ({"isr": [0, 3]}, 1, ErrorCode.OPERATION_NOT_ATTEMPTED),
    ({"isr": [2, 1]}, 3, ErrorCode.INVALID_REQUEST),
    ({"isr": []}, 3, ErrorCode.INVALID_REQUEST),
    ({"isr": [0, 0]}, 3, ErrorCode.INVALID_REQUEST),
    ({"isr": [0, 2, 0]}, 1, ErrorCode.INVALID_REQUEST),
    ({"isr": [0, -1]}, 3, ErrorCode.INELIGIBLE_REPLICA),
    ({"partition_index": 5}, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
]


@pytest.mark.parametrize(("changes", "version", "code"), CASES)
def test_each_check(cluster: Cluster, changes: dict[str, Any], version: int, code: ErrorCode) -> None:
    request = cluster.alter_request("t", [0])
    topic = request.topics[0]
    partition = topic.partitions[0]
    isr = changes.pop("isr", [0])
    partition.new_isr = isr
    partition.new_isr_with_epochs = [AlterPartitionRequest.BrokerState(each) for each in isr]
    topic.topic_name = "t"
    for name, value in changes.items():
        setattr(partition, name, value)
    before = cluster.state("t")
    response = ask(cluster, request, version)
    assert response.error_code == ErrorCode.NONE
    (answered,) = response.topics
    assert (answered.topic_name == "t") is (version < 2)
    (answer,) = answered.partitions
    assert answer.error_code == code
    after = cluster.state("t")
    if code == ErrorCode.NONE:
        assert (answer.leader_id, answer.leader_epoch) == (0, 1)
        assert list(answer.isr) == isr == list(after.isr)
        assert answer.partition_epoch == cluster.tree.nodes[PARTITION_STATE.path("t", 0)].version
    else:
        assert after == before


def test_an_unknown_topic_id(cluster: Cluster) -> None:
    request = cluster.alter_request("t", [0])
    request.topics[0].topic_id = b"?" * 16
    (topic,) = ask(cluster, request, 3).topics
    assert topic.topic_id == b"?" * 16
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("field", "value"), [("broker_epoch", 1), ("broker_id", 9)])
def test_a_stale_broker(cluster: Cluster, field: str, value: int) -> None:
    request = cluster.alter_request("t", [0])
    setattr(request, field, value)
    assert ask(cluster, request, 3) == AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


def test_a_follower_does_not_take_the_lead(cluster: Cluster) -> None:
    request = cluster.alter_request("t", [2])
    request.broker_id, request.broker_epoch = 2, cluster.brokers[2].epoch
    (topic,) = ask(cluster, request, 3).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert cluster.state("t").leader == 0


def test_another_broker_is_not_the_controller(cluster: Cluster) -> None:
    responses: list[AlterPartitionResponse] = []
    other = next(
        each.controller for each in cluster.brokers.values() if each.controller and not each.controller.is_active
    )
    assert other is not None
    other.alter_partitions(cluster.alter_request("t", [0]), 3, responses.append)
    cluster.settle()
    assert responses == [AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)]


def test_a_write_of_another_program_is_noticed(cluster: Cluster) -> None:
    request = cluster.alter_request("t", [0])
    path = PARTITION_STATE.path("t", 0)
    cluster.tree.change(SetData(path, cluster.tree.nodes[path].data), 0)
    (topic,) = ask(cluster, request, 3).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_announcements_of_old_leaders(cluster: Cluster) -> None:
    path = PARTITION_STATE.path("t", 0)
    content = PARTITION_STATE.encode(cluster.state("t")._replace(isr=(0,)))
    cluster.tree.change(SetData(path, content), 0)
    announced = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"no","partition":3}]}'
    cluster.tree.change(Create("/isr_change_notification/isr_change_0000000007", announced), 0)
    cluster.settle()
    assert cluster.tree.children("/isr_change_notification") == ()
    assert cluster.controller.context.leaderships[T0].isr == (0,)
    assert list(cluster.brokers[2].metadata[T0].isr) == [0]


def test_leaders_change_the_isr() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (0, 1))
    response = cluster.alter("t", [0])
    (answer,) = response.topics[0].partitions
    assert (answer.error_code, list(answer.isr), answer.partition_epoch) == (0, [0], 1)
    assert cluster.state("t").isr == (0,)
    assert cluster.state("t").leader_epoch == 0
    assert list(cluster.brokers[1].metadata[T0].isr) == [0]


@pytest.mark.parametrize(("isr", "expected"), [([0, 2], ErrorCode.NONE), ([0], ErrorCode.INVALID_UPDATE_VERSION)])
def test_a_write_whose_outcome_was_lost(cluster: Cluster, isr: list[int], expected: ErrorCode) -> None:
    """The write took effect and was resent, or another program wrote something else."""
    epoch = cluster.controller.context.epoch
    request = cluster.alter_request("t", [0, 2])
    stored = cluster.state("t")._replace(isr=tuple(isr), controller_epoch=epoch)
    cluster.tree.change(SetData(PARTITION_STATE.path("t", 0), PARTITION_STATE.encode(stored)), 0)
    (topic,) = ask(cluster, request, 3).topics
    (partition,) = topic.partitions
    assert partition.error_code == expected
    assert cluster.controller.context.leaderships[T0].isr == tuple(isr)
    version = cluster.tree.stat(PARTITION_STATE.path("t", 0)).version
    assert cluster.controller.context.leaderships[T0].partition_epoch == version
    if expected == ErrorCode.NONE:
        assert (partition.partition_epoch, list(partition.isr)) == (version, isr)
