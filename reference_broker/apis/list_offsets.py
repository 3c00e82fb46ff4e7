"""ListOffsets: look up offsets by time, and the ends of partitions.

1: lowest version of Kafka 4. 2: isolation level. 4: leader epoch. 5: an error for new leaders. 6: flexible. 7: the
record with the highest timestamp. 8: the start of the local log. 9: the end of the remote log. 10: a timeout. 11: the
first offset not yet copied to remote storage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kafkawire.reference_broker.apis.fetch import check_isolation
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.security.authorizer import Authorizer
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
    AclOperation,
    IsolationLevel,
    OffsetTimestamp,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["handle"]

Wanted = ListOffsetsRequest.ListOffsetsPartition
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse

_LEADER_EPOCH_SINCE = since(PartitionResponse, "leader_epoch")

#: OFFSET_NOT_AVAILABLE came with KIP-207, which added no field.
_OFFSET_NOT_AVAILABLE_SINCE = 5

#: The replica id of tools that may read from any replica.
_DEBUGGING_REPLICA_ID = -2

_NOTHING = TimestampAndOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, NO_PARTITION_LEADER_EPOCH)


class _Reader(NamedTuple):
    """The sender of the request.

    Attributes:
        is_client: whether uncommitted records are hidden. Replicas, and tools that pose as replicas, need the end of
            the log.
        is_committed: whether to consider only records before the last stable offset.
        may_follow: whether a follower may answer.
    """

    is_client: bool
    is_committed: bool
    may_follow: bool

    def end_of(self, log: PartitionLog) -> int:
        """Return the first offset that is hidden from the reader."""
        return log.readable_to(is_committed=self.is_committed) if self.is_client else log.next_offset


@serves(ApiKey.LIST_OFFSETS)
def handle(
    call: Call, request: ListOffsetsRequest, *, authorizer: Authorizer, replicas: Replicas
) -> Work[ListOffsetsResponse | DelayedOperation]:
    """Handle ListOffsets; respond immediately, unless a segment's index has to be rebuilt first."""
    asked: dict[Partition, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            asked[key] = asked.get(key, 0) + 1
            yield
        yield
    check_isolation(request.isolation_level)
    is_client = request.replica_id == CONSUMER_REPLICA_ID
    is_committed = is_client and request.isolation_level == IsolationLevel.READ_COMMITTED
    reader = _Reader(is_client, is_committed, may_follow=request.replica_id == _DEBUGGING_REPLICA_ID)
    parts: Parts[ListOffsetsResponse] = Parts()
    topics, refused = [], []
    for topic in request.topics:
        partitions: list[PartitionResponse] = []
        if not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
            refused.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, partitions))
            for partition in topic.partitions:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                partitions.append(PartitionResponse(partition.partition_index, code))
                yield
            yield
            continue
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, partitions))
        for partition in topic.partitions:
            is_twice = asked[topic.name, partition.partition_index] > 1
            partitions.append(_find(call, replicas, parts, topic.name, partition, reader, is_twice=is_twice))
            yield
        yield
    return parts.respond(ListOffsetsResponse(topics=[*topics, *refused] if refused else topics))


def _find(
    call: Call,
    replicas: Replicas,
    parts: Parts[ListOffsetsResponse],
    topic: str,
    partition: Wanted,
    reader: _Reader,
    *,
    is_twice: bool,
) -> PartitionResponse:
    """Return the response for a partition, to be filled in once the offset has been found."""
    response = PartitionResponse(partition.partition_index)
    parts.expect()

    def found(place: TimestampAndOffset | BrokerError) -> None:
        if isinstance(place, BrokerError):
            response.error_code = place.code
            if place.code == ErrorCode.OFFSET_NOT_AVAILABLE and call.version < _OFFSET_NOT_AVAILABLE_SINCE:
                response.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            response.timestamp, response.offset = place.timestamp, place.offset
            if call.version >= _LEADER_EPOCH_SINCE:
                response.leader_epoch = place.leader_epoch
        parts.arrived()

    try:
        if is_twice:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the partition appears more than once in the request")
        if partition.timestamp < 0 and call.version < _SPECIAL.get(partition.timestamp, _UNKNOWN)[0]:
            reason = f"timestamp {partition.timestamp} is not supported in version {call.version}"
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, reason)
        replica = _replica(replicas, topic, partition, reader)
    except BrokerError as error:
        found(error)
    else:
        replica.log.when_prepared(partial(_look_up, replica, partition.timestamp, reader), found)
    return response


def _replica(replicas: Replicas, topic: str, partition: Wanted, reader: _Reader) -> Replica:
    """Return the replica that answers the query.

    Raises:
        BrokerError: see `Replicas.leader`.
    """
    replica = replicas.get(topic, partition.partition_index) if reader.may_follow else None
    if replica is None:
        return replicas.leader(topic, partition.partition_index, partition.current_leader_epoch)
    replica.check_readable(partition.current_leader_epoch)
    return replica


def _look_up(replica: Replica, timestamp: int, reader: _Reader) -> TimestampAndOffset:
    """Return the offset for a timestamp.

    Raises:
        NotPrepared, BrokerError: see `PartitionLog.offset_for_timestamp`; also OFFSET_NOT_AVAILABLE.
    """
    if timestamp >= 0:
        found = replica.log.offset_for_timestamp(timestamp, up_to=reader.end_of(replica.log))
        return found or _beyond_end(replica, reader)
    _, answer = _SPECIAL[timestamp]
    return answer(replica, reader)


def _beyond_end(replica: Replica, reader: _Reader) -> TimestampAndOffset:
    """Return the answer if no record is found.

    Raises:
        BrokerError: OFFSET_NOT_AVAILABLE if a new leader does not know yet how much of its log is committed.
    """
    if reader.is_client and replica.log.high_watermark < replica.epoch_start:
        reason = (
            f"the high watermark {replica.log.high_watermark} is below the epoch's start offset {replica.epoch_start}"
        )
        raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, reason)
    return _NOTHING


def _latest(replica: Replica, reader: _Reader) -> TimestampAndOffset:
    _beyond_end(replica, reader)
    return TimestampAndOffset(NO_TIMESTAMP, reader.end_of(replica.log), replica.leader_epoch)


def _earliest(replica: Replica, reader: _Reader) -> TimestampAndOffset:
    log = replica.log
    return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, log.epoch_at(log.log_start_offset))


def _max_timestamp(replica: Replica, reader: _Reader) -> TimestampAndOffset:
    return replica.log.max_timestamp(up_to=reader.end_of(replica.log)) or _beyond_end(replica, reader)


def _remote(replica: Replica, reader: _Reader) -> TimestampAndOffset:
    """Answer a query about remote storage, which this broker does not have."""
    return _NOTHING


_VERSIONS = APIS[ApiKey.LIST_OFFSETS].versions

#: The first version that allows each special timestamp, and the function that returns its result; none of those
#: versions added a field. A dict lookup takes half the time of comparisons with each constant.
_SPECIAL: dict[int, tuple[int, Callable[[Replica, _Reader], TimestampAndOffset]]] = {
    OffsetTimestamp.LATEST: (_VERSIONS.first, _latest),
    OffsetTimestamp.EARLIEST: (_VERSIONS.first, _earliest),
    OffsetTimestamp.MAX_TIMESTAMP: (7, _max_timestamp),
    OffsetTimestamp.EARLIEST_LOCAL: (8, _earliest),
    OffsetTimestamp.LATEST_TIERED: (9, _remote),
    OffsetTimestamp.EARLIEST_PENDING_UPLOAD: (11, _remote),
}

#: Other negative timestamps, which no version allows.
_UNKNOWN = (_VERSIONS.last + 1, _remote)
