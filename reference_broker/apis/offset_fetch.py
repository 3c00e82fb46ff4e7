"""OffsetFetch: return the committed offsets of groups.

1: lowest version of Kafka 4. 2: null asks for all partitions; an error code for the group. 3: throttle time. 5: leader
epoch. 6: flexible. 7: whether to wait for offsets of open transactions. 8: several groups. 9: member epochs of KIP-848.
10: topic ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import Fetched
from kafkawire.reference_broker.metadata.image import MetadataImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import Repetitions, collect
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, counted, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET, AclOperation, ResourceType
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

#: Tells whether the client may describe a topic.
MayDescribe = Callable[[str], bool]

#: Size of a partition in bytes, without its metadata.
_PARTITION_BYTES = 20


@serves(ApiKey.OFFSET_FETCH)
def handle(
    call: Call,
    request: OffsetFetchRequest,
    *,
    authorizer: Authorizer,
    groups: GroupCoordinator,
    metadata: MetadataCache,
) -> Work[Message | DelayedOperation]:
    """Handle OffsetFetch.

    Raises:
        BrokerError: see `Repetitions`.
    """
    asked = [_Asked(request.group_id)]
    if call.version >= _SEVERAL_SINCE:
        asked = yield from each(request.groups, _asked)
    names_members = call.version >= _EPOCH_SINCE

    def ask(one: _Asked, put: Callable[[Fetched | BrokerError], None]) -> None:
        def done(outcome: Fetched | BrokerError) -> None:
            put(_allowed(request, outcome))

        if not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.GROUP, one.group_id):
            done(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        by = one if names_members else _Asked(one.group_id)
        groups.fetch(one.group_id, done, call.now_ms, by.member_id, by.epoch)

    def may_describe(topic: str) -> bool:
        return authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def respond(found: Mapping[_Asked, Fetched | BrokerError]) -> Work[Message]:
        if call.version < _SEVERAL_SINCE:
            return _single(call, request, found[asked[0]], may_describe)
        return _several(call, metadata.image, request, found, may_describe)

    return (yield from collect(call, (yield from counted(asked)), ask, respond))


class _Asked(NamedTuple):
    """The group whose offsets are requested, and the requesting member."""

    group_id: str
    member_id: str | None = None
    epoch: int = -1


def _asked(group: Group) -> _Asked:
    return _Asked(group.group_id, group.member_id, group.member_epoch)


def _allowed(request: OffsetFetchRequest, outcome: Fetched | BrokerError) -> Fetched | BrokerError:
    """Return the offsets for the client; unless it requires stable offsets, none are marked as unstable."""
    if isinstance(outcome, BrokerError) or request.require_stable:
        return outcome
    return outcome._replace(unstable=frozenset())


def _single(
    call: Call, request: OffsetFetchRequest, outcome: Fetched | BrokerError, may_describe: MayDescribe
) -> Work[OffsetFetchResponse]:
    """Return the response for versions with one group; version 1 has no field for a group error."""
    error = ErrorCode.NONE
    offsets = Fetched({}, frozenset())
    if not isinstance(outcome, BrokerError):
        offsets = outcome
    elif call.version >= _GROUP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=outcome.code)
    else:
        error = outcome.code
    wanted: Iterable[tuple[str, Sequence[int]]]
    if request.topics is not None:
        wanted = ((topic.name, topic.partition_indexes) for topic in request.topics)
    else:
        wanted = _all(offsets, may_describe)
    repetitions = Repetitions(call)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = []
    refused: list[OffsetFetchResponse.OffsetFetchResponseTopic] = []
    for name, numbers in wanted:
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = []
        is_refused = error is ErrorCode.NONE and request.topics is not None and not may_describe(name)
        (refused if is_refused else topics).append(OffsetFetchResponse.OffsetFetchResponseTopic(name, partitions))
        for number in numbers:
            position = _MAY_NOT_DESCRIBE if is_refused else _position(offsets, name, number, error)
            partitions.append(OffsetFetchResponse.OffsetFetchResponsePartition(number, *position))
            if request.topics is not None:
                repetitions.add(_size(position))
            yield
        yield
    return OffsetFetchResponse(topics=[*topics, *refused])


def _several(
    call: Call,
    image: MetadataImage,
    request: OffsetFetchRequest,
    found: Mapping[_Asked, Fetched | BrokerError],
    may_describe: MayDescribe,
) -> Work[OffsetFetchResponse]:
    """Return the response for versions with several groups; a group's offsets are collected only once."""
    repetitions = Repetitions(call)
    complete: dict[_Asked, list[FetchedTopics]] = {}
    sizes: dict[_Asked, int] = {}
    groups = []
    for group in request.groups:
        one = _asked(group)
        outcome = found[one]
        if isinstance(outcome, BrokerError):
            groups.append(FetchedGroup(group.group_id, error_code=outcome.code))
        elif group.topics is not None:
            topics: list[FetchedTopics] = []
            refused: list[FetchedTopics] = []
            for asked in group.topics:
                topic, is_refused = yield from _wanted(call, image, outcome, asked, repetitions, may_describe)
                (refused if is_refused else topics).append(topic)
                yield
            groups.append(FetchedGroup(group.group_id, [*topics, *refused]))
        else:
            if one not in complete:
                complete[one], sizes[one] = yield from _whole(image, outcome, may_describe)
            else:
                repetitions.add(sizes[one])
            groups.append(FetchedGroup(group.group_id, complete[one]))
        yield
    return OffsetFetchResponse(groups=groups)


def _whole(image: MetadataImage, offsets: Fetched, may_describe: MayDescribe) -> Work[tuple[list[FetchedTopics], int]]:
    """Return all offsets of a group, with their size in bytes."""
    topics, size_bytes = [], 0
    for name, numbers in _all(offsets, may_describe):
        known = image.topics.get(name)
        partitions: list[FetchedPartitions] = []
        topics.append(FetchedTopics(name, known.topic_id if known else ZERO_UUID, partitions))
        for number in numbers:
            position = _position(offsets, name, number)
            partitions.append(FetchedPartitions(number, *position))
            size_bytes += _size(position)
            yield
        yield
    return topics, size_bytes


def _wanted(
    call: Call,
    image: MetadataImage,
    offsets: Fetched,
    asked: OffsetFetchRequest.OffsetFetchRequestTopics,
    repetitions: Repetitions,
    may_describe: MayDescribe,
) -> Work[tuple[FetchedTopics, bool]]:
    """Return the requested offsets for a topic, and whether the client may not describe the topic.

    A client may name a partition more than once.
    """
    by_id = call.version >= _BY_ID_SINCE
    topic = image.topics_by_id.get(asked.topic_id) if by_id else None
    is_unknown = by_id and topic is None
    name = topic.name if topic is not None else asked.name
    is_refused = not is_unknown and not may_describe(name)
    partitions: list[FetchedPartitions] = []
    for number in asked.partition_indexes:
        if is_unknown:
            position = _no_position(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            position = _MAY_NOT_DESCRIBE if is_refused else _position(offsets, name, number)
        partitions.append(FetchedPartitions(number, *position))
        repetitions.add(_size(position))
        yield
    if is_unknown:
        return FetchedTopics(topic_id=asked.topic_id, partitions=partitions), False
    return FetchedTopics(name, topic.topic_id if topic is not None else ZERO_UUID, partitions), is_refused


def _all(offsets: Fetched, may_describe: MayDescribe) -> list[tuple[str, Sequence[int]]]:
    """Return the partitions that have a committed offset, grouped by topic, of topics that the client may describe."""
    by_topic = groupby(sorted(offsets.offsets), lambda partition: partition[0])
    return [(name, [number for _, number in of_topic]) for name, of_topic in by_topic if may_describe(name)]


def _size(position: tuple[int, int, str, ErrorCode]) -> int:
    """Return the approximate size of a partition in a response, in bytes."""
    return _PARTITION_BYTES + len(position[2])


def _position(
    offsets: Fetched, topic: str, number: int, error: ErrorCode = ErrorCode.NONE
) -> tuple[int, int, str, ErrorCode]:
    """Return a partition for the response: offset, leader epoch, metadata and error."""
    if (topic, number) in offsets.unstable:
        return _no_position(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.offsets.get((topic, number))
    if committed is None:
        return _no_position(error)
    return committed.offset, committed.leader_epoch, committed.metadata, error


def _no_position(error: ErrorCode) -> tuple[int, int, str, ErrorCode]:
    return UNKNOWN_OFFSET, NO_PARTITION_LEADER_EPOCH, "", error


#: The position in a topic that the client may not describe.
_MAY_NOT_DESCRIBE = _no_position(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
