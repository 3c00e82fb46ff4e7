"""Batches are grouped by topic in one request, and each finds its outcome in the response, by name or by id.

Method: hand-made responses to a request with two topics.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.producer.accumulator import ProducerBatch
from kafkawire.sdk.producer.requests import outcomes, produce_request
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import BatchBuilder

IDS = {"a": b"A" * 16, "b": b"B" * 16}


def known() -> Metadata:
    """Return metadata of two topics led by node 1 in epoch 5."""
    metadata = Metadata()
    partitions = [MetadataResponse.MetadataResponsePartition(0, number, 1, 5) for number in range(2)]
    topics = [MetadataResponse.MetadataResponseTopic(0, name, IDS[name], partitions=partitions) for name in IDS]
    brokers = [MetadataResponse.MetadataResponseBroker(node, "h", 1) for node in (1, 2)]
    metadata.update(MetadataResponse(brokers=brokers, topics=topics), 0)
    return metadata


def batch(topic: str, partition: int) -> ProducerBatch:
    """Return a batch with one record."""
    builder = BatchBuilder()
    builder.append(0, None, b"v")
    return ProducerBatch(0, TopicPartition(topic, partition), builder, 0)


def produce_response(
    *partitions: ProduceResponse.PartitionProduceResponse, name: str = "a", by_id: bool = False
) -> ProduceResponse:
    """Return a response about one topic."""
    topic = ProduceResponse.TopicProduceResponse("" if by_id else name, IDS[name] if by_id else ZERO_UUID, partitions)
    return ProduceResponse([topic])


def test_request() -> None:
    batches = [batch("a", 0), batch("b", 1), batch("a", 1)]
    request = produce_request(batches, known(), -1, 30_000)
    assert (request.acks, request.timeout_ms) == (-1, 30_000)
    assert [(topic.name, topic.topic_id) for topic in request.topic_data] == [("a", IDS["a"]), ("b", IDS["b"])]
    assert [[data.index for data in topic.partition_data] for topic in request.topic_data] == [[0, 1], [1]]
    assert request.topic_data[0].partition_data[0].records is batches[0].sealed()


@pytest.mark.parametrize("by_id", [False, True])
def test_success(by_id: bool) -> None:
    sent = [batch("a", 0), batch("a", 1)]
    kind = ProduceResponse.PartitionProduceResponse
    found = list(outcomes(produce_response(kind(1, 0, 20, 7), kind(0, 0, 10), by_id=by_id), sent, known()))
    assert [(each.batch, each.error, each.base_offset, each.log_append_time_ms) for each in found] == [
        (sent[0], None, 10, -1),
        (sent[1], None, 20, 7),
    ]


def test_error_with_the_new_leader() -> None:
    metadata = known()
    leader = ProduceResponse.LeaderIdAndEpoch(2, 6)
    response = produce_response(
        ProduceResponse.PartitionProduceResponse(
            0, ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="elsewhere", current_leader=leader
        )
    )
    (found,) = outcomes(response, [batch("a", 0)], metadata)
    assert isinstance(found.error, BrokerError)
    assert str(found.error) == "NOT_LEADER_OR_FOLLOWER: 1 records for a-0: elsewhere"
    assert metadata.leader(TopicPartition("a", 0)) == 2


def test_a_response_that_leaves_a_batch_out() -> None:
    (found,) = outcomes(produce_response(name="b"), [batch("a", 0)], known())
    assert isinstance(found.error, RemoteProtocolError)
    assert "does not mention a-0" in str(found.error)
