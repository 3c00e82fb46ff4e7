"""OffsetFetch: the committed offsets of groups.

1: lowest version of Kafka 4. 2: null asks for all partitions; an error code for the group. 3: throttle time. 5: leader
epoch. 6: flexible. 7: whether to wait for offsets of open transactions. 8: several groups. 9: member epochs of KIP-848.
10: topic ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.groups.offsets import Committed
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

_SEVERAL_SINCE = since(OffsetFetchRequest, "groups")
_BY_ID_SINCE = since(OffsetFetchRequest.OffsetFetchRequestTopics, "topic_id")


@serves(ApiKey.OFFSET_FETCH)
def handle(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Handle OffsetFetch."""
    if call.version >= _SEVERAL_SINCE:
        return OffsetFetchResponse(groups=[_group(call, group) for group in request.groups])
    if request.topics is None:
        wanted = _all(call, request.group_id)
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    committed = call.core.offsets.of_group(request.group_id)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name,
                [
                    OffsetFetchResponse.OffsetFetchResponsePartition(number, *_position(committed.get((name, number))))
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ]
    )


def _group(
    call: Call, group: OffsetFetchRequest.OffsetFetchRequestGroup
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    directory = call.core.directory
    if group.topics is None:
        wanted = []
        for name, numbers in _all(call, group.group_id):
            topic = directory.topics.get(name)
            wanted.append(_topic(call, group.group_id, name, topic.topic_id if topic else ZERO_UUID, numbers))
        return OffsetFetchResponse.OffsetFetchResponseGroup(group.group_id, wanted)
    topics = []
    for asked in group.topics:
        if call.version < _BY_ID_SINCE:
            topics.append(_topic(call, group.group_id, asked.name, ZERO_UUID, asked.partition_indexes))
        elif (topic := directory.topics_by_id.get(asked.topic_id)) is not None:
            topics.append(_topic(call, group.group_id, topic.name, topic.topic_id, asked.partition_indexes))
        else:
            topics.append(_unknown_id(asked))
    return OffsetFetchResponse.OffsetFetchResponseGroup(group.group_id, topics)


def _all(call: Call, group_id: str) -> list[tuple[str, Sequence[int]]]:
    """Return the partitions that have a committed offset, by topic."""
    partitions = sorted(call.core.offsets.of_group(group_id))
    return [
        (name, [number for _, number in of_topic]) for name, of_topic in groupby(partitions, lambda entry: entry[0])
    ]


def _topic(
    call: Call, group_id: str, name: str, topic_id: bytes, numbers: Sequence[int]
) -> OffsetFetchResponse.OffsetFetchResponseTopics:
    committed = call.core.offsets.of_group(group_id)
    return OffsetFetchResponse.OffsetFetchResponseTopics(
        name,
        topic_id,
        [
            OffsetFetchResponse.OffsetFetchResponsePartitions(number, *_position(committed.get((name, number))))
            for number in numbers
        ],
    )


def _unknown_id(asked: OffsetFetchRequest.OffsetFetchRequestTopics) -> OffsetFetchResponse.OffsetFetchResponseTopics:
    return OffsetFetchResponse.OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetchResponse.OffsetFetchResponsePartitions(
                number, *_position(None), error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for number in asked.partition_indexes
        ],
    )


def _position(committed: Committed | None) -> tuple[int, int, str]:
    """Return offset, leader epoch and metadata for a response."""
    if committed is None:
        return UNKNOWN_OFFSET, NO_PARTITION_LEADER_EPOCH, ""
    return committed.offset, committed.leader_epoch, committed.metadata
