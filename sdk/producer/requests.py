"""Produce requests from batches, and the outcome of each batch from the response.

Source: Kafka protocol guide, "Produce"; KIP-516 (topic ids, from version 13), KIP-951 (the new leader in the response).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.producer.accumulator import ProducerBatch
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Outcome", "outcomes", "produce_request"]


class Outcome(NamedTuple):
    """The outcome of a batch.

    Attributes:
        batch: the batch that was sent.
        error: None if it was stored.
        base_offset: the offset of its first record, if it was stored.
        log_append_time_ms: the broker's timestamp, -1 if the records keep their own.
    """

    batch: ProducerBatch
    error: KafkaWireError | None
    base_offset: int = -1
    log_append_time_ms: int = -1


def produce_request(batches: Iterable[ProducerBatch], metadata: Metadata, acks: int, timeout_ms: int) -> ProduceRequest:
    """Return one request with the batches of several partitions.

    Args:
        batches: at most one of each partition.
        metadata: provides the topic ids.
        acks: -1 for all in-sync replicas, 1 for the leader, 0 for none.
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
    """Yield the outcome of each batch; new leaders named in the response go to the metadata.

    Args:
        response: to the request that carried the batches.
        batches: what was sent.
        metadata: resolves topic ids, and learns of new leaders.
    """
    results = {
        (topic.name or metadata.name_of(topic.topic_id), partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    for batch in batches:
        result = results.get(batch.partition)
        if result is None:
            yield Outcome(batch, RemoteProtocolError(f"the Produce response does not mention {batch.partition}"))
        elif result.error_code == ErrorCode.NONE:
            yield Outcome(batch, None, result.base_offset, result.log_append_time_ms)
        else:
            leader = result.current_leader
            metadata.move_leader(batch.partition, leader.leader_id, leader.leader_epoch)
            detail = f"{batch.builder.count} records for {batch.partition}"
            text = f"{detail}: {result.error_message}" if result.error_message else detail
            yield Outcome(batch, BrokerError(result.error_code, text))
