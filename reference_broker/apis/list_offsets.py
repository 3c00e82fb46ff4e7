"""ListOffsets: offsets by time, and the ends of partitions.

1: lowest version of Kafka 4. 2: isolation level. 4: leader epoch. 6: flexible. 7: the record with the highest
timestamp. 8: the start of the local log. 9: the end of the remote log. 10: a timeout. 11: the first offset not yet
copied to remote storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafkawire.reference_broker.apis.fetch import check_leader_epoch
from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.log.file_names import Partition
from kafkawire.reference_broker.log.partition_log import PartitionLog
from kafkawire.reference_broker.log.segments import TimestampAndOffset
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    UNKNOWN_OFFSET,
    IsolationLevel,
    OffsetTimestamp,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Wanted = ListOffsetsRequest.ListOffsetsPartition
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse

_LEADER_EPOCH_SINCE = since(PartitionResponse, "leader_epoch")

#: The first version that allows a special timestamp; none of them added a field.
_SINCE = {
    OffsetTimestamp.LATEST: APIS[ApiKey.LIST_OFFSETS].versions.first,
    OffsetTimestamp.EARLIEST: APIS[ApiKey.LIST_OFFSETS].versions.first,
    OffsetTimestamp.MAX_TIMESTAMP: 7,
    OffsetTimestamp.EARLIEST_LOCAL: 8,
    OffsetTimestamp.LATEST_TIERED: 9,
    OffsetTimestamp.EARLIEST_PENDING_UPLOAD: 11,
}

_NOTHING = TimestampAndOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, NO_PARTITION_LEADER_EPOCH)


@serves(ApiKey.LIST_OFFSETS)
def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Handle ListOffsets."""
    asked = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    # Counting takes longer than the rest, and normally there is nothing to count.
    twice = _named_twice(asked) if len(set(asked)) < len(asked) else ()
    is_committed = request.isolation_level == IsolationLevel.READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                topic.name,
                [
                    _find(call, topic.name, partition, is_committed, (topic.name, partition.partition_index) in twice)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _named_twice(partitions: Sequence[Partition]) -> set[Partition]:
    return {partition for partition, count in Counter(partitions).items() if count > 1}


def _find(call: Call, topic: str, partition: Wanted, is_committed: bool, is_twice: bool) -> PartitionResponse:
    log = call.core.directory.log(topic, partition.partition_index)
    try:
        if is_twice:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
        if log is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check_leader_epoch(log, partition.current_leader_epoch)
        found = _look_up(call, log, partition.timestamp, is_committed=is_committed)
    except BrokerError as error:
        return PartitionResponse(partition.partition_index, error.code)
    response = PartitionResponse(partition.partition_index, ErrorCode.NONE, found.timestamp, found.offset)
    if call.version >= _LEADER_EPOCH_SINCE:
        response.leader_epoch = found.leader_epoch
    return response


def _look_up(call: Call, log: PartitionLog, timestamp: int, *, is_committed: bool) -> TimestampAndOffset:
    if timestamp >= 0:
        return log.offset_for_timestamp(timestamp, is_committed=is_committed) or _NOTHING
    if timestamp not in _SINCE or call.version < _SINCE[OffsetTimestamp(timestamp)]:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} in version {call.version}")
    match OffsetTimestamp(timestamp):
        case OffsetTimestamp.LATEST:
            return TimestampAndOffset(NO_TIMESTAMP, log.readable_to(is_committed=is_committed), log.leader_epoch)
        case OffsetTimestamp.EARLIEST | OffsetTimestamp.EARLIEST_LOCAL:
            return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, log.epoch_at(log.log_start_offset))
        case OffsetTimestamp.MAX_TIMESTAMP:
            return log.max_timestamp(is_committed=is_committed) or _NOTHING
        case _:
            # Both are about remote storage, which this broker does not have.
            return _NOTHING
