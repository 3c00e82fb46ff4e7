"""Produce: append batches to partitions.

3: lowest version of Kafka 4, one batch of magic 2 per partition. 5: log start offset. 7: Zstandard. 8: refused records
and the reasons for refusing them. 9: flexible. 10: the current leader in the response. 11, 12: KIP-890 transactions.
13: topic ids instead of names.

With acks=0 there is no response, and a failure closes the connection, as in Kafka. The connection's next request still
waits until the batches are in their logs, which limits their memory use.

A response to acks=all that waits for followers is sent when the request times out, at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.image import MetadataImage
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.requests.long_requests import AT_A_TIME
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.reference_broker.storage.log.validation import validate
from kafkawire.reference_broker.storage.producers.producers import Verification
from kafkawire.reference_broker.transactions.transaction_verification import (
    Unverified,
    Verifier,
    append_verified,
    transaction_version,
)
from kafkawire.reference_broker.work.pieces import Pieces, Work
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import Acks, AclOperation, ResourceType, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER_BYTES,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.produced import InvalidBatch, transactional_producer

__all__ = ["handle"]

PartitionData = ProduceRequest.PartitionProduceData
PartitionResponse = ProduceResponse.PartitionProduceResponse

_BY_ID_SINCE = since(ProduceRequest.TopicProduceData, "topic_id")

#: Zstandard came with KIP-110, which added no field.
_ZSTANDARD_SINCE = 7

_CURRENT_LEADER_SINCE = since(PartitionResponse, "current_leader")

_ACKS = frozenset(Acks)

#: Converted once, since they are used for every batch.
_NO_ACKS, _ALL_ACKS = int(Acks.NONE), int(Acks.ALL)

#: Uncompressed records up to this size in bytes can be checked in less than a millisecond.
_LONG_BYTES = 64 * 1024

#: This number of topics, or of batches whose producer is checked, takes less than a millisecond.
_LOOKED_AT_A_TIME = 2_000

_FINISHED = object()

_MAY_NOT_WRITE = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


#: KAFKA-18659: librdkafka up to 2.5 compresses only if versions 0 to 2 are advertised, although brokers no longer serve
#: them.
_ADVERTISED_FROM = 0


@serves(ApiKey.PRODUCE, advertised_from=_ADVERTISED_FROM)
def handle(
    call: Call,
    request: ProduceRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    options: BrokerOptions,
    replicas: Replicas,
    verifier: Verifier,
) -> ProduceResponse | DelayedOperation | None:
    """Handle Produce; the response is delayed while a log syncs or starts a new segment."""
    parts: Parts[ProduceResponse] = Parts()
    responses: list[ProduceResponse.TopicProduceResponse] = []
    response = ProduceResponse(responses)
    steps = _append_all(call, authorizer, metadata, options, replicas, verifier, request, response, responses, parts)
    is_unfinished = next(steps, _FINISHED) is not _FINISHED
    if is_unfinished:
        parts.expect()
    is_answered = request.acks != _NO_ACKS
    if not (is_unfinished or is_answered):
        _close_on_error(response)
    answer = parts.respond(response)
    if not isinstance(answer, DelayedOperation):
        return answer if is_answered else None
    if is_unfinished:
        answer.steps = _arriving(steps, call, request, responses, parts)
    else:
        _limit_wait(call, request, responses, parts)
    if not is_answered:
        answer.check_unsent = _close_on_error
    return answer


def _arriving(
    steps: Iterator[None],
    call: Call,
    request: ProduceRequest,
    responses: list[ProduceResponse.TopicProduceResponse],
    parts: Parts[ProduceResponse],
) -> Iterator[None]:
    yield from steps
    parts.arrived()
    _limit_wait(call, request, responses, parts)


def _limit_wait(
    call: Call,
    request: ProduceRequest,
    responses: list[ProduceResponse.TopicProduceResponse],
    parts: Parts[ProduceResponse],
) -> None:
    """Respond at the timeout if a batch waits for followers; batches not replicated by then get REQUEST_TIMED_OUT."""
    if any(each.error_code == ErrorCode.REQUEST_TIMED_OUT for topic in responses for each in topic.partition_responses):
        parts.end_by(call.now_ms + max(request.timeout_ms, 0), call.timers)


def _append_all(
    call: Call,
    authorizer: Authorizer,
    metadata: MetadataCache,
    options: BrokerOptions,
    replicas: Replicas,
    verifier: Verifier,
    request: ProduceRequest,
    response: ProduceResponse,
    responses: list[ProduceResponse.TopicProduceResponse],
    parts: Parts[ProduceResponse],
) -> Iterator[None]:
    """Append to the partitions one after another, and add the results to the responses.

    A step ends after each batch that may have taken long, since a few bytes may decompress to 100 MiB of records. It
    also ends after many short batches, or after many topics without batches.
    """
    transactional: list[Unverified] = []
    refused = yield from _refusal(call, authorizer, request)
    pieces = Pieces(AT_A_TIME)
    last: tuple[Buffer | None, Replica | None] | None = None
    for data in request.topic_data:
        name = _name(call.version, metadata.image, data)
        refusal = refused
        if name is not None and (refused is None or refused.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
            count = len(data.partition_data)
            if not authorizer.allows(call, AclOperation.WRITE, ResourceType.TOPIC, name, count=count):
                refusal = _MAY_NOT_WRITE
        answers: list[PartitionResponse] = []
        responses.append(ProduceResponse.TopicProduceResponse(data.name, data.topic_id, answers))
        if not data.partition_data and pieces.ends():
            yield
        for partition in data.partition_data:
            if last is not None and (pieces.ends() or _may_take_long(*last)):
                yield
            replica = None if name is None else replicas.get(name, partition.index)
            last = partition.records, replica
            answers.append(
                _append(call, refusal, name, replicas, replica, partition, parts, transactional, request.acks, response)
            )
    if transactional:
        version = transaction_version(call.version)
        # Clients that let the broker add partitions depend on the coordinator.
        is_asked = version >= TransactionVersion.TV_2 or options.transaction_partition_verification_enable
        append_verified(
            verifier if is_asked else None,
            request.transactional_id or "",
            transactional,
            version,
            call.now_ms,
        )


def _may_take_long(records: Buffer | None, replica: Replica | None) -> bool:
    """Return whether checking a partition's records may take long, because of their size or of compression."""
    if records is None or len(records) < BATCH_HEADER_BYTES:
        return False
    if len(records) > _LONG_BYTES or records[BATCH_CRC_COVERS_FROM + 1] & BATCH_COMPRESSION_MASK:
        return True
    return replica is not None and replica.log.config.compression is not None


def _refusal(call: Call, authorizer: Authorizer, request: ProduceRequest) -> Work[BrokerError | None]:
    """Return why the whole request is refused, or None if it is not."""
    producers, pieces = set(), Pieces(_LOOKED_AT_A_TIME)
    for topic in request.topic_data:
        if pieces.ends():
            yield
        for partition in topic.partition_data:
            if (producer := transactional_producer(partition.records)) is not None:
                producers.add(producer)
            if pieces.ends():
                yield
    if producers and request.transactional_id is None:
        reason = "the request has transactional records, but no transactional id"
        return BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, reason)
    if producers and not authorizer.allows(
        call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id or ""
    ):
        return BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.acks not in _ACKS:
        return BrokerError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, got {request.acks}")
    if len(producers) > 1:
        reason = f"the request has transactional records from {len(producers)} producers, but only one is allowed"
        return BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)
    return None


def _name(version: int, image: MetadataImage, data: ProduceRequest.TopicProduceData) -> str | None:
    """Return the name of a topic, or None if its id is unknown."""
    if version < _BY_ID_SINCE:
        return data.name
    topic = image.topics_by_id.get(data.topic_id)
    return None if topic is None else topic.name


def _append(
    call: Call,
    refused: BrokerError | None,
    name: str | None,
    replicas: Replicas,
    replica: Replica | None,
    partition: PartitionData,
    parts: Parts[ProduceResponse],
    transactional: list[Unverified],
    acks: int,
    whole: ProduceResponse,
) -> PartitionResponse:
    try:
        if refused is not None:
            raise refused.again()
        if name is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        if replica is None:
            raise replicas.missing(name, partition.index)
        if name in INTERNAL_TOPICS:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients cannot produce to the internal topic {name}")
        replica.check_acks(acks)  # first: a transaction cannot end in a partition that cannot store its marker
        log = replica.log
        data, header = validate(
            partition.records, log.config, call.now_ms, allow_zstandard=call.version >= _ZSTANDARD_SINCE
        )
    except InvalidBatch as error:
        return _invalid(partition, error, replica)
    except BrokerError as error:
        response = PartitionResponse(partition.index)
        _refuse(call, replicas, whole, name, response, error)
        return response
    response = PartitionResponse(partition.index, log_start_offset=log.log_start_offset)
    parts.expect()
    if log.is_replicated and acks == _ALL_ACKS:
        response.error_code = ErrorCode.REQUEST_TIMED_OUT  # sent to the client at the timeout

    def appended(result: Appended | BrokerError) -> None:
        if isinstance(result, BrokerError):
            reached(result)
        elif acks == _NO_ACKS:
            parts.arrived()
        else:
            response.base_offset = result.base_offset
            response.log_append_time_ms = result.log_append_time_ms
            replica.when_acknowledged(acks, result.last_offset + 1, reached)

    def reached(error: BrokerError | None) -> None:
        if error is not None:
            _refuse(call, replicas, whole, name, response, error)
        elif log.is_replicated:
            response.error_code = ErrorCode.NONE
        parts.arrived()

    if header.is_transactional:

        def append(verification: Verification | None) -> None:
            try:
                replica.check_acks(acks)  # again, since the coordinator may have taken long to answer
            except BrokerError as error:
                reached(error)
                return
            replica.append(data, header, call.now_ms, appended, verification=verification)

        transactional.append(Unverified((name, partition.index), log, header, append, reached))
    else:
        replica.append(data, header, call.now_ms, appended)
    return response


def _invalid(partition: PartitionData, error: InvalidBatch, replica: Replica | None) -> PartitionResponse:
    return PartitionResponse(
        partition.index,
        error.code,
        base_offset=-1,
        log_start_offset=replica.log.log_start_offset if replica and error.record_errors else -1,
        record_errors=[ProduceResponse.BatchIndexAndErrorMessage(*entry) for entry in error.record_errors],
        error_message=error.detail,
    )


def _refuse(
    call: Call,
    replicas: Replicas,
    whole: ProduceResponse,
    name: str | None,
    response: PartitionResponse,
    error: BrokerError,
) -> None:
    response.error_code, response.error_message = error.code, error.detail or None
    response.base_offset = response.log_append_time_ms = response.log_start_offset = -1
    if name is None or error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER or call.version < _CURRENT_LEADER_SINCE:
        return
    # This saves the client from asking for metadata (KIP-951).
    leader_id, leader_epoch, broker = replicas.current_leader(name, response.index)
    response.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id, leader_epoch)
    if broker is not None and (address := broker.listeners.get(call.peer.listener.name)) is not None:
        others = [each for each in whole.node_endpoints if each.node_id != leader_id]
        whole.node_endpoints = [*others, ProduceResponse.NodeEndpoint(leader_id, *address, broker.rack)]


def _close_on_error(response: ProduceResponse) -> None:
    """Close the connection if a batch was refused, since with acks=0 there is no other way to report it."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                raise RemoteProtocolError(f"records for partition {partition.index} were rejected with {name}")
