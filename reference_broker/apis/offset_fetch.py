"""OffsetFetch: the committed offsets of groups.

1: lowest version of Kafka 4. 2: null asks for all partitions; an error code for the group. 3: throttle time. 5: leader
epoch. 6: flexible. 7: whether to wait for offsets of open transactions. 8: several groups. 9: member epochs of KIP-848.
10: topic ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.gathering import gather
from kafkawire.reference_broker.groups.requests import Fetched
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

_GROUP_ERROR_SINCE = since(OffsetFetchResponse, "error_code")
_SEVERAL_SINCE = since(OffsetFetchRequest, "groups")
_EPOCH_SINCE = since(OffsetFetchRequest.OffsetFetchRequestGroup, "member_epoch")
_BY_ID_SINCE = since(OffsetFetchRequest.OffsetFetchRequestTopics, "topic_id")

Group = OffsetFetchRequest.OffsetFetchRequestGroup
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopics = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartitions = OffsetFetchResponse.OffsetFetchResponsePartitions


@serves(ApiKey.OFFSET_FETCH)
def handle(call: Call, request: OffsetFetchRequest) -> DelayedOperation:
    """Handle OffsetFetch."""
    if call.version < _SEVERAL_SINCE:
        delayed = DelayedOperation()

        def answer_one(outcome: Fetched | BrokerError) -> None:
            delayed.complete(_single(call.version, request, _allowed(request, outcome)))

        call.core.groups.fetch(request.group_id, answer_one, call.now_ms)
        return delayed

    def ask(group: Group, put: Callable[[FetchedGroup], None]) -> None:
        def answer(outcome: Fetched | BrokerError) -> None:
            put(_group(call, group, _allowed(request, outcome)))

        if call.version >= _EPOCH_SINCE:
            call.core.groups.fetch(group.group_id, answer, call.now_ms, group.member_id, group.member_epoch)
        else:
            call.core.groups.fetch(group.group_id, answer, call.now_ms)

    return gather(call, request.groups, ask, lambda found: OffsetFetchResponse(groups=found))


def _allowed(request: OffsetFetchRequest, outcome: Fetched | BrokerError) -> Fetched | BrokerError:
    """Return offsets as the client wants them: it may take what an open transaction is about to change."""
    if isinstance(outcome, BrokerError) or request.require_stable:
        return outcome
    return outcome._replace(unstable=frozenset())


def _single(version: int, request: OffsetFetchRequest, outcome: Fetched | BrokerError) -> OffsetFetchResponse:
    """Return the response of the versions with one group, where the first has no place for an error of the group."""
    error = ErrorCode.NONE
    offsets = Fetched({}, frozenset())
    if isinstance(outcome, BrokerError):
        error = outcome.code
        wanted = [] if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
        if version >= _GROUP_ERROR_SINCE:
            return OffsetFetchResponse(error_code=error)
    else:
        offsets = outcome
        if request.topics is None:
            wanted = _all(offsets)
        else:
            wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name,
                [
                    OffsetFetchResponse.OffsetFetchResponsePartition(number, *_position(offsets, name, number, error))
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ]
    )


def _group(call: Call, group: Group, outcome: Fetched | BrokerError) -> FetchedGroup:
    if isinstance(outcome, BrokerError):
        return FetchedGroup(group.group_id, error_code=outcome.code)
    directory = call.core.directory
    topics = []
    if group.topics is None:
        for name, numbers in _all(outcome):
            topic = directory.topics.get(name)
            topics.append(_topic(outcome, name, topic.topic_id if topic else ZERO_UUID, numbers))
        return FetchedGroup(group.group_id, topics)
    for asked in group.topics:
        if call.version < _BY_ID_SINCE:
            topics.append(_topic(outcome, asked.name, ZERO_UUID, asked.partition_indexes))
        elif (topic := directory.topics_by_id.get(asked.topic_id)) is not None:
            topics.append(_topic(outcome, topic.name, topic.topic_id, asked.partition_indexes))
        else:
            topics.append(_unknown_id(asked))
    return FetchedGroup(group.group_id, topics)


def _all(offsets: Fetched) -> list[tuple[str, Sequence[int]]]:
    """Return the partitions that have a committed offset, by topic."""
    by_topic = groupby(sorted(offsets.offsets), lambda partition: partition[0])
    return [(name, [number for _, number in of_topic]) for name, of_topic in by_topic]


def _topic(offsets: Fetched, name: str, topic_id: bytes, numbers: Sequence[int]) -> FetchedTopics:
    partitions = [FetchedPartitions(number, *_position(offsets, name, number)) for number in numbers]
    return FetchedTopics(name, topic_id, partitions)


def _unknown_id(asked: OffsetFetchRequest.OffsetFetchRequestTopics) -> FetchedTopics:
    partitions = [
        FetchedPartitions(number, *_no_position(ErrorCode.UNKNOWN_TOPIC_ID)) for number in asked.partition_indexes
    ]
    return FetchedTopics(topic_id=asked.topic_id, partitions=partitions)


def _position(
    offsets: Fetched, topic: str, number: int, error: ErrorCode = ErrorCode.NONE
) -> tuple[int, int, str, ErrorCode]:
    """Return offset, leader epoch, metadata and error for a response."""
    if (topic, number) in offsets.unstable:
        return _no_position(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.offsets.get((topic, number))
    if committed is None:
        return _no_position(error)
    return committed.offset, committed.leader_epoch, committed.metadata, error


def _no_position(error: ErrorCode) -> tuple[int, int, str, ErrorCode]:
    return UNKNOWN_OFFSET, NO_PARTITION_LEADER_EPOCH, "", error
