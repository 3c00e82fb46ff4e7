"""Requests to brokers carry the known state, are queued in order, and are resent until they are answered.

Method: build batches from a context; then use a scripted cluster.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.controller import broker_requests
from kafkawire.reference_broker.cluster.controller.broker_requests import (
    RETRY_BACKOFF_MS,
    ControlRequest,
    RequestVersions,
)
from kafkawire.reference_broker.cluster.controller.context import Leadership
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

T0 = TopicPartition("t", 0)


def test_a_request_is_repeated_until_it_is_answered() -> None:
    cluster = Cluster(0, 1)
    cluster.unreachable.add(1)
    cluster.create("t", (1, 0))
    assert T0 not in cluster.brokers[1].states
    cluster.unreachable.clear()
    cluster.fire(RETRY_BACKOFF_MS)
    assert cluster.brokers[1].states[T0].leader == 1


def test_requests_are_those_of_kafka() -> None:
    cluster = Cluster(0, 1)
    count = len(cluster.brokers[1].requests)
    cluster.create("t", (1, 0))
    leader, metadata, *_ = cluster.brokers[1].requests[count:]
    assert isinstance(leader, LeaderAndIsrRequest)
    assert (leader.controller_id, leader.controller_epoch, leader.type) == (0, 1, 0)
    assert leader.broker_epoch == cluster.brokers[1].epoch
    assert leader.live_leaders == [LeaderAndIsrRequest.LeaderAndIsrLiveLeader(1, "host1", 9092)]
    (topic,) = leader.topic_states
    assert topic.topic_id == cluster.assignment("t").topic_id
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState("t", 0, 1, 1, 0, [1, 0], 0, [1, 0], is_new=True)
    assert topic.partition_states == [state]
    assert isinstance(metadata, UpdateMetadataRequest)
    assert [each.id for each in metadata.live_brokers] == [0, 1]
    endpoint = UpdateMetadataRequest.UpdateMetadataEndpoint(9092, "host0", "PLAINTEXT", 0)
    assert metadata.live_brokers[0].endpoints == [endpoint]


#: For each version, the requests that stop one partition and delete another.
STOPS = [
    (4, [(False, {("t", 0, False), ("t", 1, True)})]),
    (2, [(True, {("t", 1)}), (False, {("t", 0)})]),
    (0, [(True, {("t", 1)}), (False, {("t", 0)})]),
]


@pytest.mark.parametrize(("version", "expected"), STOPS)
def test_each_version_of_stop_replica(version: int, expected: list[tuple[bool, set[object]]]) -> None:
    cluster = Cluster(0)
    sent: list[broker_requests.ControlRequest] = []
    context = cluster.controller.context
    versions = RequestVersions(stop_replica=version)
    batch = broker_requests.RequestBatch(context, 0, "PLAINTEXT", versions, lambda _, request: sent.append(request))
    batch.add_stop_replica((0, 9, -1), T0, is_deleted=False)
    batch.add_stop_replica((0,), TopicPartition("t", 1), is_deleted=True)
    batch.add_stop_replica((0,), TopicPartition("t", 1), is_deleted=False)
    batch.send()
    found = []
    for request in sent:
        message = request.message
        assert isinstance(message, StopReplicaRequest)
        stopped: set[object] = {
            (topic.topic_name, each.partition_index, each.delete_partition)
            for topic in message.topic_states
            for each in topic.partition_states
        }
        stopped |= {(topic.name, number) for topic in message.topics for number in topic.partition_indexes}
        stopped |= {(each.topic_name, each.partition_index) for each in message.ungrouped_partitions}
        found.append((message.delete_partitions, stopped))
    assert found == expected
    assert [partition for request in sent for partition in request.kind.deleted] == [("t", 1)]


def test_too_many_waiting_requests_end_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_requests, "WAITING_MAX", 5)
    cluster = Cluster(0, 1)
    cluster.unreachable.add(1)
    for number in range(4):
        cluster.create(f"t{number}", (1, 0))
    assert cluster.controller.controller_id == 1


class Waiting:
    """A controller's requests to broker 0, which are answered when the test does so.

    Attributes:
        context: holds the number of partitions in the cluster.
        overflows: how many requests did not fit into the queue.
    """

    def __init__(self) -> None:
        self.context = Cluster(0).controller.context
        self.sent: list[Callable[[Message | Exception], None]] = []
        self.overflows = 0
        self.requests = broker_requests.BrokerRequests(
            0, "PLAINTEXT", self.context, self, lambda *_: None, lambda *_: None, self.overflow
        )
        self.requests.connect(self.context.brokers[0])

    def overflow(self, broker_id: int) -> None:
        self.overflows += 1

    def connect(self, broker: LiveBroker) -> None:
        """Connect; see `Channels`."""

    def disconnect(self, broker_id: int) -> None:
        """Disconnect; see `Channels`."""

    def send(self, broker_id: int, request: ControlRequest, done: Callable[[Message | Exception], None]) -> None:
        self.sent.append(done)

    def stop(self, *numbers: int, version: int = 4) -> None:
        """Send a StopReplica."""
        self.requests._versions = RequestVersions(stop_replica=version)
        batch = self.requests.batch()
        for number in numbers:
            batch.add_stop_replica((0,), TopicPartition("t", number), is_deleted=True)
        batch.send()


@pytest.mark.parametrize("version", [4, 2, 0])
def test_requests_that_name_too_many_partitions(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(broker_requests, "WAITING_PARTITIONS_MAX", 5)
    waiting = Waiting()
    waiting.stop(1, 2, 3, version=version)
    waiting.stop(4, 5, version=version)
    assert waiting.overflows == 0
    waiting.stop(6, version=version)
    assert waiting.overflows == 1
    waiting.sent[0](StopReplicaResponse())
    waiting.stop(6, 7, 8, version=version)
    assert waiting.overflows == 1, "answered requests are not counted"


def test_the_partitions_of_the_cluster_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_requests, "WAITING_PARTITIONS_MAX", 1)
    monkeypatch.setattr(broker_requests, "WAITING_STATES_MAX", 2)
    waiting = Waiting()
    waiting.stop(1, 2, 3)
    assert waiting.overflows == 0, "a single request is accepted whatever its size"
    waiting.context.leaderships = {TopicPartition("t", number): Leadership(0, (0,)) for number in range(2)}
    waiting.stop(4)
    assert waiting.overflows == 0
    waiting.stop(5)
    assert waiting.overflows == 1


def test_all_brokers_share_what_they_are_told() -> None:
    cluster = Cluster(0, 1)
    cluster.create("t", (1, 0))
    first, second = (broker.requests[-1] for broker in cluster.brokers.values())
    assert isinstance(first, UpdateMetadataRequest)
    assert isinstance(second, UpdateMetadataRequest)
    assert first.topic_states[0] is second.topic_states[0]
