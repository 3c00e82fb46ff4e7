"""Produce requests from batches, and what their answers say of each batch.

Source: Kafka protocol guide, "Produce"; KIP-516 (topic ids, from version 13), KIP-951 (the new leader in the answer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.producer.accumulator import ProducerBatch
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Outcome", "outcomes", "produce_request"]


class Outcome(NamedTuple):
    """How a batch fared.

    Attributes:
        batch: as it was sent.
        error: None if it was stored.
        base_offset: where, if it was.
        log_append_time_ms: the broker's timestamp, -1 if the records keep their own.
    """

    batch: ProducerBatch
    error: KafkaWireError | None
    base_offset: int = -1
    log_append_time_ms: int = -1


def produce_request(batches: Iterable[ProducerBatch], metadata: Metadata, acks: int, timeout_ms: int) -> ProduceRequest:
    """Return one request with batches of different partitions.

    Args:
        batches: at most one of each partition.
        metadata: gives the topic ids.
        acks: -1 for all replicas in sync, 1, 0.
        timeout_ms: how long the leader waits for the replicas.
    """
    topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
    for batch in batches:
        data = ProduceRequest.PartitionProduceData(batch.partition.partition, batch.sealed())
        topics.setdefault(batch.partition.topic, []).append(data)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(name, metadata.topic_id(name), partitions)
            for name, partitions in topics.items()
        ],
    )


def outcomes(response: ProduceResponse, batches: Iterable[ProducerBatch], metadata: Metadata) -> Iterator[Outcome]:
    """Return how each batch fared; leaders that the answer names go to the metadata.

    Args:
        response: the answer.
        batches: what was sent.
        metadata: gives the names of topic ids.
    """
    answers = {
        (topic.name or metadata.name_of(topic.topic_id), partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    for batch in batches:
        answer = answers.get(batch.partition)
        if answer is None:
            yield Outcome(batch, RemoteProtocolError(f"the answer to Produce does not mention {batch.partition}"))
        elif answer.error_code == ErrorCode.NONE:
            yield Outcome(batch, None, answer.base_offset, answer.log_append_time_ms)
        else:
            leader = answer.current_leader
            metadata.move_leader(batch.partition, leader.leader_id, leader.leader_epoch)
            detail = f"{batch.builder.count} records for {batch.partition}"
            text = f"{detail}: {answer.error_message}" if answer.error_message else detail
            yield Outcome(batch, BrokerError(answer.error_code, text))
