"""Build Produce requests from batches, and read the result of each batch from the response.

Source: Kafka protocol guide, "Produce"; KIP-467 (rejected records), KIP-516 (topic ids, from version 13),
KIP-890 (partitions that a request adds to the transaction), KIP-951 (the new leader in the response).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafkawire.sdk.errors import BatchRefused, BrokerError, DeliveryTimedOut, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.producer.partition_queue import ProducerBatch
from kafkawire.sdk.producer.transactions.partitions import TransactionPartitions
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import PRODUCE_LAST_BEFORE_TV_2
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["Result", "produce_request", "results", "timed_out"]

#: The maximum number of rejected records named in the error for the other records.
_REASONS_MAX = 3


class Result(NamedTuple):
    """A broker's result for a batch.

    Attributes:
        batch: the batch that was sent.
        error: why the batch was not stored; None if it was.
        record_errors: the errors of the rejected records, keyed by index in the batch.
        others: the error for all other records; None if it is the same as `error`.
        base_offset: the offset of the first record, if the batch was stored.
        log_append_time_ms: the broker's timestamp; -1 if the records keep their own.
        log_start_offset: the partition's log start offset; -1 if the broker did not report it.
        leader_moved: whether the response named a new leader, which is now in the metadata.
    """

    batch: ProducerBatch
    error: KafkaWireError | None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    leader_moved: bool = False
    record_errors: Mapping[int, KafkaWireError] = MappingProxyType({})
    others: KafkaWireError | None = None


def produce_request(
    batches: Iterable[ProducerBatch],
    metadata: Metadata,
    acks: int,
    timeout_ms: int,
    versions: Versions,
    transaction: TransactionPartitions | None = None,
) -> tuple[ProduceRequest, int]:
    """Return one request that contains the batches of several partitions, and its version.

    Args:
        batches: the batches, at most one per partition.
        metadata: provides the topic ids.
        acks: -1 for all in-sync replicas, 1 for the leader, 0 for none.
        timeout_ms: how long the leader waits for the replicas.
        versions: the versions that the broker supports.
        transaction: the transaction to which the batches belong; None without a transaction.
    """
    partitions: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
    topics: list[ProduceRequest.TopicProduceData] = []
    named = False
    for batch in batches:
        name, number = batch.outcome.partition
        if name not in partitions:
            partitions[name] = []
            topic_id = metadata.topic_id(name)
            named = named or topic_id == ZERO_UUID
            topics.append(ProduceRequest.TopicProduceData(name, topic_id, partitions[name]))
        partitions[name].append(ProduceRequest.PartitionProduceData(number, batch.sealed()))
    transactional_id = None if transaction is None else transaction.transactional_id
    request = ProduceRequest(transactional_id, acks, timeout_ms, topics)
    version = versions.version_for(ProduceRequest, (ProduceRequest.TopicProduceData, "name") if named else None)
    if transaction is not None and not transaction.joins_by_itself:
        version = min(version, PRODUCE_LAST_BEFORE_TV_2)
    return request, version


def results(
    response: ProduceResponse, batches: Iterable[ProducerBatch], names: Mapping[bytes, str], metadata: Metadata
) -> Iterator[Result]:
    """Yield the result of each batch, and add new leaders named in the response to the metadata.

    Args:
        response: the response to the request that carried the batches.
        batches: the batches that were sent.
        names: the names of the topics in the request, keyed by id; the metadata may have dropped a topic in the
            meantime, for example after a response from a broker that does not know it yet.
        metadata: stores new leaders.
    """
    found = {
        (topic.name or names.get(topic.topic_id), partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    for batch in batches:
        partition = batch.outcome.partition
        result = found.get(partition)
        if result is None:
            yield Result(batch, RemoteProtocolError(f"the Produce response does not mention {partition}"))
        elif result.error_code == ErrorCode.NONE:
            yield Result(batch, None, result.base_offset, result.log_append_time_ms)
        else:
            leader = result.current_leader
            moved = metadata.move_leader(partition, leader.leader_id, leader.leader_epoch, response.node_endpoints)
            refused = _refused(batch, result)
            yield refused._replace(log_start_offset=result.log_start_offset, leader_moved=moved)


def _refused(batch: ProducerBatch, result: ProduceResponse.PartitionProduceResponse) -> Result:
    """Return the errors of a rejected batch, and of the records that caused the rejection.

    Indexes outside the batch and repeated indexes are ignored.
    """
    code, partition, count = result.error_code, batch.outcome.partition, batch.builder.count
    reasons: dict[int, str | None] = {}
    for each in result.record_errors:
        if 0 <= each.batch_index < count:
            reasons.setdefault(each.batch_index, each.batch_index_error_message or result.error_message)
    if not reasons:
        text = f"{batch}: {result.error_message}" if result.error_message else str(batch)
        return Result(batch, BrokerError(code, text))
    whose = f"record for {partition}"
    refused = {index: BrokerError(code, f"{whose}: {reason}" if reason else whose) for index, reason in reasons.items()}
    named = [f"record {index}{f': {reason}' if reason else ''}" for index, reason in sorted(reasons.items())]
    more = [f"{len(named) - _REASONS_MAX} more"] if len(named) > _REASONS_MAX else []
    text = "; ".join(named[:_REASONS_MAX] + more)
    because = f"not stored, because the broker rejected {len(named)} of {count} in its batch: {text}"
    others = BatchRefused(code, f"{whose}: {because}")
    return Result(batch, BrokerError(code, f"{batch}: {text}"), record_errors=refused, others=others)


def timed_out(
    batch: ProducerBatch, timeout_ms: int, cause: KafkaWireError | None, *, lack: str = "", throttling: str = ""
) -> DeliveryTimedOut:
    """Return the error for a batch that was not acknowledged in time.

    Args:
        batch: the batch that was given up.
        timeout_ms: `delivery_timeout_ms`.
        cause: the last error that occurred while the batch was being sent; None if there was none.
        lack: what the batch still needed, as part of a sentence; empty if nothing was missing.
        throttling: see `Router.throttling`.
    """
    reason = f"; {cause or lack}" if cause or lack else ""
    error = DeliveryTimedOut(f"{batch}: not acknowledged within delivery_timeout_ms={timeout_ms}{reason}{throttling}")
    error.__cause__ = cause
    return error
