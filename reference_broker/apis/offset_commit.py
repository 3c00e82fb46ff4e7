"""OffsetCommit: commit a group's offsets.

2: lowest version of Kafka 4, retention time until 4. 3: throttle time. 6: leader epoch. 7: static members. 8: flexible.
9: member epochs of KIP-848. 10: topic ids instead of names.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.groups.offsets import Partition
from kafkawire.reference_broker.groups.records import NO_EXPIRY, Committed
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: Before KIP-848, committing to a missing group counted as an old generation. The KIP added no field.
_UNKNOWN_GROUP_SINCE = 9

_BY_ID_SINCE = since(OffsetCommitRequest.OffsetCommitRequestTopic, "topic_id")

#: Partitions with these were given to the coordinator, whose error replaces them.
_CODES_OF_THE_GROUP = (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)

#: A retention time that leaves it to the broker.
_BROKERS_RETENTION_MS = -1

Topic = OffsetCommitRequest.OffsetCommitRequestTopic


@serves(ApiKey.OFFSET_COMMIT)
def handle(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | DelayedOperation:
    """Handle OffsetCommit."""
    offsets: dict[Partition, Committed] = {}
    codes = [_collect(call, topic, request.retention_time_ms, offsets) for topic in request.topics]
    if not any(code in _CODES_OF_THE_GROUP for of_topic in codes for code in of_topic):
        return _respond(request, codes, ErrorCode.NONE)
    delayed = DelayedOperation()

    def answer(outcome: BrokerError | None) -> None:
        code = ErrorCode.NONE if outcome is None else outcome.code
        if code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < _UNKNOWN_GROUP_SINCE:
            code = ErrorCode.ILLEGAL_GENERATION
        delayed.complete(_respond(request, codes, code))

    committer = Commit(
        request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    )
    call.core.groups.commit(committer, offsets, answer, call.now_ms)
    return delayed


def _collect(call: Call, wanted: Topic, retention_ms: int, offsets: dict[Partition, Committed]) -> list[ErrorCode]:
    """Add the offsets of a topic that can be committed; return an error code for each partition."""
    directory = call.core.directory
    by_id = call.version >= _BY_ID_SINCE
    topic = directory.topics_by_id.get(wanted.topic_id) if by_id else directory.topics.get(wanted.name)
    codes = []
    for partition in wanted.partitions:
        metadata = partition.committed_metadata or ""
        if topic is None:
            codes.append(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not 0 <= partition.partition_index < len(topic.logs):
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif len(metadata) > call.core.options.offset_metadata_max_bytes:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        else:
            codes.append(ErrorCode.NONE)
            offsets[topic.name, partition.partition_index] = Committed(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                call.now_ms,
                topic.topic_id,
                NO_EXPIRY if retention_ms == _BROKERS_RETENTION_MS else call.now_ms + retention_ms,
            )
    return codes


def _respond(request: OffsetCommitRequest, codes: list[list[ErrorCode]], error: ErrorCode) -> OffsetCommitResponse:
    """Return the response; an error of the group replaces what could have been committed."""

    def told(code: ErrorCode) -> ErrorCode:
        if error and code in _CODES_OF_THE_GROUP:
            return error
        return code

    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponse.OffsetCommitResponsePartition(partition.partition_index, told(code))
                    for partition, code in zip(topic.partitions, of_topic, strict=True)
                ],
            )
            for topic, of_topic in zip(request.topics, codes, strict=True)
        ]
    )
