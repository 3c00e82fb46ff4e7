"""ListOffsets: offsets by time, and the ends of partitions.

1: lowest version of Kafka 4. 2: isolation level. 4: leader epoch. 6: flexible. 7: the record with the highest
timestamp. 8: the start of the local log. 9: the end of the remote log. 10: a timeout. 11: the first offset not yet
copied to remote storage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkawire.reference_broker.apis.fetch import check_isolation
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.segments.segments import TimestampAndOffset
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    CONSUMER_REPLICA_ID,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    UNKNOWN_OFFSET,
    IsolationLevel,
    OffsetTimestamp,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["handle"]

Wanted = ListOffsetsRequest.ListOffsetsPartition
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse

_LEADER_EPOCH_SINCE = since(PartitionResponse, "leader_epoch")

_NOTHING = TimestampAndOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, NO_PARTITION_LEADER_EPOCH)


@serves(ApiKey.LIST_OFFSETS)
def handle(
    call: Call, request: ListOffsetsRequest, *, replicas: Replicas
) -> Work[ListOffsetsResponse | DelayedOperation]:
    """Handle ListOffsets: respond at once, unless the index of a segment has to be rebuilt first."""
    asked: dict[Partition, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            asked[key] = asked.get(key, 0) + 1
            yield
        yield
    is_committed = request.isolation_level == IsolationLevel.READ_COMMITTED
    check_isolation(request.isolation_level)
    # A replica needs the end of the log, and so does a tool that poses as one.
    is_committed &= request.replica_id == CONSUMER_REPLICA_ID
    parts: Parts[ListOffsetsResponse] = Parts()
    topics = []
    for topic in request.topics:
        partitions: list[PartitionResponse] = []
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, partitions))
        for partition in topic.partitions:
            is_twice = asked[topic.name, partition.partition_index] > 1
            partitions.append(
                _find(call, replicas, parts, topic.name, partition, is_committed=is_committed, is_twice=is_twice)
            )
            yield
        yield
    return parts.respond(ListOffsetsResponse(topics=topics))


def _find(
    call: Call,
    replicas: Replicas,
    parts: Parts[ListOffsetsResponse],
    topic: str,
    partition: Wanted,
    *,
    is_committed: bool,
    is_twice: bool,
) -> PartitionResponse:
    """Return the response for a partition; it is complete once its part has arrived."""
    response = PartitionResponse(partition.partition_index)
    parts.expect()

    def found(place: TimestampAndOffset | BrokerError) -> None:
        if isinstance(place, BrokerError):
            response.error_code = place.code
        else:
            response.timestamp, response.offset = place.timestamp, place.offset
            if call.version >= _LEADER_EPOCH_SINCE:
                response.leader_epoch = place.leader_epoch
        parts.arrived()

    try:
        if is_twice:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
        if partition.timestamp < 0 and call.version < _SPECIAL.get(partition.timestamp, _UNKNOWN)[0]:
            reason = f"timestamp {partition.timestamp} in version {call.version}"
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, reason)
        log = replicas.leader(topic, partition.partition_index, partition.current_leader_epoch).log
    except BrokerError as error:
        found(error)
    else:
        log.when_prepared(partial(_look_up, log, partition.timestamp, is_committed=is_committed), found)
    return response


def _look_up(log: PartitionLog, timestamp: int, *, is_committed: bool) -> TimestampAndOffset:
    if timestamp >= 0:
        return log.offset_for_timestamp(timestamp, is_committed=is_committed) or _NOTHING
    _, answer = _SPECIAL[timestamp]
    return answer(log, is_committed)


def _latest(log: PartitionLog, is_committed: bool) -> TimestampAndOffset:
    return TimestampAndOffset(NO_TIMESTAMP, log.readable_to(is_committed=is_committed), log.leader_epoch)


def _earliest(log: PartitionLog, is_committed: bool) -> TimestampAndOffset:
    return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, log.epoch_at(log.log_start_offset))


def _max_timestamp(log: PartitionLog, is_committed: bool) -> TimestampAndOffset:
    return log.max_timestamp(is_committed=is_committed) or _NOTHING


def _remote(log: PartitionLog, is_committed: bool) -> TimestampAndOffset:
    """Answer a query about remote storage, which this broker does not have."""
    return _NOTHING


_VERSIONS = APIS[ApiKey.LIST_OFFSETS].versions

#: The first version that allows each special timestamp, and its result; none of those versions added a field. A dict
#: lookup takes half the time of comparing with each name.
_SPECIAL: dict[int, tuple[int, Callable[[PartitionLog, bool], TimestampAndOffset]]] = {
    OffsetTimestamp.LATEST: (_VERSIONS.first, _latest),
    OffsetTimestamp.EARLIEST: (_VERSIONS.first, _earliest),
    OffsetTimestamp.MAX_TIMESTAMP: (7, _max_timestamp),
    OffsetTimestamp.EARLIEST_LOCAL: (8, _earliest),
    OffsetTimestamp.LATEST_TIERED: (9, _remote),
    OffsetTimestamp.EARLIEST_PENDING_UPLOAD: (11, _remote),
}

#: No version allows any other special timestamp.
_UNKNOWN = (_VERSIONS.last + 1, _remote)
