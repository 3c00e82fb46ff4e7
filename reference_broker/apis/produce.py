"""Produce: append batches to partitions.

3: lowest version of Kafka 4, one batch of magic 2 per partition. 5: log start offset. 7: Zstandard. 8: which records
were refused, and why. 9: flexible. 10: the current leader in the response. 11, 12: transactions of KIP-890. 13: topic
ids instead of names.

With acks=0 there is no response: a failure closes the connection, as in Kafka. `min.insync.replicas` never refuses a
batch: it is capped at the number of replicas, which is one.
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.core import INTERNAL_TOPICS
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.log.log_directory import Topic
from kafkawire.reference_broker.log.partition_log import PartitionLog
from kafkawire.reference_broker.log.validation import InvalidBatch, validate
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Partition = ProduceRequest.PartitionProduceData
PartitionResponse = ProduceResponse.PartitionProduceResponse

_BY_ID_SINCE = since(ProduceRequest.TopicProduceData, "topic_id")

#: Zstandard came with KIP-110, which added no field.
_ZSTANDARD_SINCE = 7

_ACKS = frozenset(Acks)


@serves(ApiKey.PRODUCE)
def handle(call: Call, request: ProduceRequest) -> ProduceResponse | DelayedOperation | None:
    """Handle Produce; the response is delayed if the topic's configuration asks to sync first."""
    to_sync: list[PartitionLog] = []
    responses = []
    for data in request.topic_data:
        topic, error = _find(call, data)
        responses.append(
            ProduceResponse.TopicProduceResponse(
                data.name,
                data.topic_id,
                [_append(call, request, topic, error, partition, to_sync) for partition in data.partition_data],
            )
        )
    response = ProduceResponse(responses)
    if request.acks == Acks.NONE:
        call.core.sync(to_sync, lambda error: None)
        _close_on_error(response)
        return None
    if not to_sync:
        return response
    delayed_produce = DelayedOperation()
    call.core.sync(to_sync, partial(_synced, delayed_produce, response))
    return delayed_produce


def _find(call: Call, data: ProduceRequest.TopicProduceData) -> tuple[Topic | None, ErrorCode]:
    directory = call.core.directory
    if call.version >= _BY_ID_SINCE:
        return directory.topics_by_id.get(data.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return directory.topics.get(data.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _append(
    call: Call,
    request: ProduceRequest,
    topic: Topic | None,
    missing: ErrorCode,
    partition: Partition,
    to_sync: list[PartitionLog],
) -> PartitionResponse:
    try:
        if request.acks not in _ACKS:
            raise BrokerError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}, expected -1, 0 or 1")
        if topic is None:
            raise BrokerError(missing)
        if not 0 <= partition.index < len(topic.logs):
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.name in INTERNAL_TOPICS:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is an internal topic")
        log = topic.logs[partition.index]
        data, header = validate(
            partition.records, log.config, call.now_ms, allow_zstandard=call.version >= _ZSTANDARD_SINCE
        )
        appended = log.append(data, header, call.now_ms)
    except InvalidBatch as error:
        return PartitionResponse(
            partition.index,
            error.code,
            base_offset=-1,
            record_errors=[ProduceResponse.BatchIndexAndErrorMessage(*entry) for entry in error.record_errors],
            error_message=error.detail,
        )
    except BrokerError as error:
        return PartitionResponse(partition.index, error.code, base_offset=-1, error_message=error.detail or None)
    if call.core.sync_after(log, appended, call.now_ms):
        to_sync.append(log)
    return PartitionResponse(
        partition.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=log.log_start_offset,
    )


def _synced(delayed_produce: DelayedOperation, response: ProduceResponse, error: Exception | None) -> None:
    if error is not None:
        for topic in response.responses:
            for partition in topic.partition_responses:
                partition.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                partition.error_message = str(error)
    delayed_produce.complete(response)


def _close_on_error(response: ProduceResponse) -> None:
    """Close the connection: with acks=0 there is no other way to report a failure."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                raise RemoteProtocolError(f"records for partition {partition.index} were refused with {name}")
