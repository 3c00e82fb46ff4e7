"""DeleteRecords: move the start of partitions forward, which makes earlier records unreadable.

0: lowest version. 2: flexible.

The response waits until the new start is durable and the logs of all live replicas begin there, or until the timeout.
The next retention check deletes the files.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = DeleteRecordsResponse.DeleteRecordsPartitionResult

#: The offset that means the high watermark.
_HIGH_WATERMARK = -1


@serves(ApiKey.DELETE_RECORDS)
def handle(
    call: Call, request: DeleteRecordsRequest, *, authorizer: Authorizer, replicas: Replicas
) -> Work[DeleteRecordsResponse | DelayedOperation]:
    """Handle DeleteRecords; if a partition is named twice, the last offset wins, as in Kafka."""
    parts: Parts[DeleteRecordsResponse] = Parts()
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = asked.setdefault(topic.name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
            yield
        yield
    topics = []
    for name, offsets in asked.items():
        results: list[Result] = []
        topics.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name, results))
        may_delete = authorizer.allows(call, AclOperation.DELETE, ResourceType.TOPIC, name)
        for number, offset in offsets.items():
            if not may_delete:
                results.append(Result(number, UNKNOWN_OFFSET, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                yield
                continue
            results.append(_delete(replicas, name, number, offset, parts, may_wait=request.timeout_ms > 0))
            yield
        yield
    deadline_ms = call.now_ms + request.timeout_ms
    if request.timeout_ms <= 0:
        # Even without a timeout, the response waits for completion: Kafka's timeout applies only to the other replicas.
        return parts.respond(DeleteRecordsResponse(topics=topics))
    return parts.respond_by(deadline_ms, call.timers, DeleteRecordsResponse(topics=topics))


def _delete(
    replicas: Replicas,
    topic: str,
    number: int,
    offset: int,
    parts: Parts[DeleteRecordsResponse],
    *,
    may_wait: bool,
) -> Result:
    result = Result(number, UNKNOWN_OFFSET)
    try:
        replica = replicas.get(topic, number)
        if replica is None:
            raise replicas.missing(topic, number)
        if topic in INTERNAL_TOPICS:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica.check()
        log = replica.log
        if log.config.is_compacted and not log.config.has_retention:
            raise BrokerError(ErrorCode.POLICY_VIOLATION)
        offset = log.high_watermark if offset == _HIGH_WATERMARK else offset
        if not 0 <= offset <= log.high_watermark:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    except BrokerError as error:
        result.error_code = error.code
        return result
    log.begin_at(offset)
    # The client gets this error on timeout.
    result.low_watermark, result.error_code = replica.low_watermark, ErrorCode.REQUEST_TIMED_OUT

    def durable(error: BrokerError | None) -> None:
        if error is not None:
            finished(error)
        elif may_wait or replica.low_watermark >= offset:
            replica.when_low_watermark(offset, finished)
        else:
            parts.arrived()

    def finished(error: BrokerError | None) -> None:
        if error is None:
            result.low_watermark, result.error_code = replica.low_watermark, ErrorCode.NONE
        else:
            result.low_watermark, result.error_code = UNKNOWN_OFFSET, error.code
        parts.arrived()

    parts.expect()
    replicas.checkpoint(durable)
    return result
