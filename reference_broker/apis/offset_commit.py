"""OffsetCommit: commit a group's offsets.

2: lowest version of Kafka 4, retention time until 4. 3: throttle time. 6: leader epoch. 7: static members. 8: flexible.
9: member epochs of KIP-848. 10: topic ids instead of names.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.groups.offsets import Committed, Partition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: Before KIP-848, committing to a missing group counted as an old generation. The KIP added no field.
_UNKNOWN_GROUP_SINCE = 9

_BY_ID_SINCE = since(OffsetCommitRequest.OffsetCommitRequestTopic, "topic_id")

Topic = OffsetCommitRequest.OffsetCommitRequestTopic


@serves(ApiKey.OFFSET_COMMIT)
def handle(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Handle OffsetCommit."""
    core = call.core
    offsets: dict[Partition, Committed] = {}
    try:
        core.groups.check_commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            call.now_ms,
        )
    except BrokerError as error:
        is_unknown = error.code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < _UNKNOWN_GROUP_SINCE
        code = ErrorCode.ILLEGAL_GENERATION if is_unknown else error.code
        return _respond(request, [[code] * len(topic.partitions) for topic in request.topics])
    codes = [_collect(call, topic, offsets) for topic in request.topics]
    try:
        core.offsets.commit(request.group_id, offsets, call.now_ms)
    except BrokerError as error:
        codes = [[code or error.code for code in of_topic] for of_topic in codes]
    else:
        if offsets:
            core.groups.group_for_commit(request.group_id, call.now_ms)
    return _respond(request, codes)


def _collect(call: Call, wanted: Topic, offsets: dict[Partition, Committed]) -> list[ErrorCode]:
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
            )
    return codes


def _respond(request: OffsetCommitRequest, codes: list[list[ErrorCode]]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponse.OffsetCommitResponsePartition(partition.partition_index, code)
                    for partition, code in zip(topic.partitions, of_topic, strict=True)
                ],
            )
            for topic, of_topic in zip(request.topics, codes, strict=True)
        ]
    )
