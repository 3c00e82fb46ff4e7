"""AlterPartitionReassignments starts, replaces and cancels moves, and refuses invalid ones with Kafka's code and text.

Method: call the handlers of the controller's broker, without sockets.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC_DELETION
from kafkawire.sdk.registry.registry import Create
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.apis.controlling_broker import ControllingBroker
from tests.reference_broker.broker_bench import BrokerBench

#: The only version that Apache Kafka 3 has.
VERSION = 0


@pytest.fixture
def broker() -> ControllingBroker:
    broker = ControllingBroker(0, 1, 2)
    broker.cluster.create("t", (0, 1), (0, 1))
    broker.cluster.create("u", (0,))
    return broker


def request(topic: str, orders: Mapping[int, list[int] | None]) -> AlterPartitionReassignmentsRequest:
    Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    Partition = AlterPartitionReassignmentsRequest.ReassignablePartition
    return AlterPartitionReassignmentsRequest(topics=[Topic(topic, [Partition(*each) for each in orders.items()])])


def results(response: AlterPartitionReassignmentsResponse) -> dict[tuple[str, int], tuple[int, str | None]]:
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return {
        (topic.name, each.partition_index): (each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


DONE = (ErrorCode.NONE, None)
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
NOT_MOVED = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")


def invalid(text: str) -> tuple[int, str]:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text


def test_moves_begin_are_replaced_and_cancelled(broker: ControllingBroker) -> None:
    answer = broker.begin(request("t", {0: [2, 1], 1: None, 9: [0]}), VERSION)
    assert isinstance(answer, DelayedOperation), "the request waits for the registry"
    assert results(broker.read(answer, VERSION)) == {("t", 0): DONE, ("t", 1): NOT_MOVED, ("t", 9): UNKNOWN}
    assert broker.cluster.assignment("t").adding_replicas == {0: (2,)}
    assert results(broker.ask(request("t", {0: [1, 2, 0]}), VERSION)) == {("t", 0): DONE}
    assert broker.cluster.assignment("t").removing_replicas == {}
    assert results(broker.ask(request("t", {0: None}), VERSION)) == {("t", 0): DONE}
    assert broker.cluster.assignment("t").adding_replicas == {}
    assert results(broker.ask(request("t", {0: None}), VERSION)) == {("t", 0): NOT_MOVED}


REFUSED = [
    ([], "Empty replica list specified in partition reassignment."),
    ([1, 1], "Duplicate replica ids in partition reassignment replica list: [1, 1]"),
    ([1, -1], "Invalid broker id in replica list: [1, -1]"),
    (
        [1, 7],
        "Replica assignment has brokers that are not alive. Replica list: (7,), live broker list: [0, 1, 2]",
    ),
]


@pytest.mark.parametrize(("replicas", "text"), REFUSED)
def test_what_is_refused(broker: ControllingBroker, replicas: list[int], text: str) -> None:
    assert results(broker.ask(request("t", {0: replicas, 1: [1, 0]}), VERSION)) == {
        ("t", 0): invalid(text),
        ("t", 1): DONE,
    }


def test_unknown_topics(broker: ControllingBroker) -> None:
    found = results(broker.ask(request("none", {0: [1], 1: None, 2: []}), VERSION))
    assert found == {
        ("none", 0): UNKNOWN,
        ("none", 1): NOT_MOVED,
        ("none", 2): invalid("Empty replica list specified in partition reassignment."),
    }


def test_a_topic_that_is_being_deleted(broker: ControllingBroker) -> None:
    broker.cluster.brokers[0].undeletable.add(TopicPartition("u", 0))
    broker.cluster.tree.change(Create(TOPIC_DELETION.path("u")), 0)
    broker.cluster.settle()
    assert results(broker.ask(request("u", {0: [1]}), VERSION)) == {("u", 0): UNKNOWN}


def test_the_last_order_for_a_partition_counts(broker: ControllingBroker) -> None:
    twice = AlterPartitionReassignmentsRequest(
        topics=[*request("t", {0: []}).topics, *request("u", {0: [1]}).topics, *request("t", {0: [1, 0]}).topics]
    )
    assert results(broker.ask(twice, VERSION)) == {("t", 0): DONE, ("u", 0): DONE}


def test_a_broker_that_is_not_the_controller(broker: ControllingBroker) -> None:
    broker.controller.close()
    response = broker.ask(request("t", {0: [1]}), VERSION)
    found = (response.error_code, response.error_message, response.responses)
    assert found == (ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.", ())


def unknown(text: str) -> tuple[int, str]:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text


MANUAL = "The manual partition assignment includes "
#: What Apache Kafka 4.3 answers as the only node of a cluster.
ALONE: list[tuple[str, int, list[int] | None, tuple[int, str | None]]] = [
    ("t", 0, [1], DONE),
    ("t", 1, None, NOT_MOVED),
    ("t", 2, [1], unknown("Unable to find partition t:2.")),
    ("t", -1, [1], unknown("Unable to find partition t:-1.")),
    ("gone", 0, None, unknown("Unable to find a topic named gone.")),
    ("t", 0, [2], invalid(MANUAL + "broker 2, but no such broker is registered.")),
    ("t", 0, [1, 2], invalid(MANUAL + "broker 2, but no such broker is registered.")),
    ("t", 0, [1, 1], invalid(MANUAL + "the broker 1 more than once.")),
    ("t", 0, [], invalid(MANUAL + "an empty replica list.")),
]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("topic", "number", "replicas", "expected"), ALONE)
def test_a_standalone_broker(
    version: int, topic: str, number: int, replicas: list[int] | None, expected: tuple[int, str | None]
) -> None:
    bench = BrokerBench(MemoryDisk(), node_id=1)
    bench.create("t", 2)
    asked = request(topic, {number: replicas})
    asked.allow_replication_factor_change = not version  # version 0 has no such field, which stands for True
    response = bench.ask(asked, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert response.allow_replication_factor_change is not bool(version)
    assert [(each.error_code, each.error_message) for each in response.responses[0].partitions] == [expected]
