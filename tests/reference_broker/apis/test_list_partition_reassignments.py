"""ListPartitionReassignments names the partitions that are being moved, and no others.

Method: call the handlers of the controller's broker, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.apis.controlling_broker import ControllingBroker
from tests.reference_broker.broker_bench import BrokerBench

Asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics


@pytest.fixture
def broker() -> ControllingBroker:
    """The controller of a cluster that is moving t-0 and u-1, but not t-1 or u-0."""
    broker = ControllingBroker(0, 1, 2)
    for topic, number in (("t", 0), ("u", 1)):
        broker.cluster.create(topic, (0, 1), (0, 1))
        broker.controller.alter_reassignments({TopicPartition(topic, number): (2, 1)}, lambda _: None)
    broker.cluster.settle()
    return broker


def moves(
    response: ListPartitionReassignmentsResponse,
) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return {
        (topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in response.topics
        for each in topic.partitions
    }


MOVE = ([2, 1, 0], [2], [0])

ASKED = [
    (None, {("t", 0): MOVE, ("u", 1): MOVE}),
    ([], {}),
    ([Asked("u", [0, 1, 1, 9])], {("u", 1): MOVE}),
    ([Asked("t", [0]), Asked("none", [0]), Asked("t", [1])], {("t", 0): MOVE}),
]


@pytest.mark.parametrize(("asked", "found"), ASKED, ids=["all", "none", "of one topic", "of several topics"])
def test_what_is_listed(
    broker: ControllingBroker, asked: list[Asked] | None, found: dict[tuple[str, int], object]
) -> None:
    assert moves(broker.ask(ListPartitionReassignmentsRequest(topics=asked), 0)) == found


def test_a_broker_that_is_not_the_controller(broker: ControllingBroker) -> None:
    broker.controller.close()
    response = broker.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    found = (response.error_code, response.error_message, response.topics)
    assert found == (ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.", ())


@pytest.mark.parametrize("topics", [None, [], [Asked("t", [0]), Asked("gone", [0])]])
def test_a_standalone_broker_moves_nothing(topics: list[Asked] | None) -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create("t", 1)
    response = bench.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (response.error_code, response.error_message, list(response.topics)) == (ErrorCode.NONE, None, [])
