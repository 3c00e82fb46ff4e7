"""DeleteTopics: delete topics and their data.

1: lowest version of Kafka 4. 3: an error code for brokers that do not delete topics. 4: flexible. 5: error texts. 6:
topic ids as well as names.

As in Kafka, internal topics can also be deleted; their coordinator then starts over. A topic that is named twice is
refused, with a single result, as in Apache Kafka 4.3. In a cluster, it is deleted, and each entry gets a result, as in
3.9.

Source: `ControllerApis.deleteTopics` in Apache Kafka 4.3; `KafkaApis.handleDeleteTopicsRequest` in 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.metadata.image import MetadataImage, TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.topic_controller import Permit, TopicController
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster, not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, counted
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import DELETE_TOPICS_FIRST_WITH_STRICT_QUOTA, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

Result = DeleteTopicsResponse.DeletableTopicResult

#: Since version 3, the client is told that this broker does not delete topics.
_DELETION_DISABLED_SINCE = 3


@serves(ApiKey.DELETE_TOPICS, only_on_controller=True)
def handle(
    call: Call,
    request: DeleteTopicsRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    throttling: Throttling,
    topics: TopicController,
) -> Work[DeleteTopicsResponse | DelayedOperation]:
    """Handle DeleteTopics; the response is delayed until the deletion is durable, or until the timeout.

    Raises:
        BrokerError: topics cannot be deleted here; or, in a cluster, an entry has both a name and an id.
    """
    if not topics.deletes_topics:
        is_told = call.version >= _DELETION_DISABLED_SINCE
        raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED if is_told else ErrorCode.INVALID_REQUEST)
    permits = throttling.permits(call, strict_since=DELETE_TOPICS_FIRST_WITH_STRICT_QUOTA)
    parts: Parts[DeleteTopicsResponse] = Parts()
    by_state = (_Wanted(state.name, state.topic_id) for state in request.topics)
    by_name = (_Wanted(name, ZERO_UUID) for name in request.topic_names)
    wanted = by_state if request.topics else by_name
    if topics.answers_each:
        results = yield from _delete_entries(call, authorizer, metadata, topics, wanted, parts, permits.take)
    else:
        is_late = request.timeout_ms <= 0 and not topics.acts_without_time
        access = _Access(authorizer, call)
        results = yield from _delete_topics(
            call, access, metadata, topics, wanted, parts, permits.take, is_late=is_late
        )
    deadline_ms = call.now_ms + request.timeout_ms
    return parts.respond_by(deadline_ms, call.timers, DeleteTopicsResponse(responses=results))


class _Wanted(NamedTuple):
    """A topic to delete: a name or an id."""

    name: str | None
    topic_id: bytes


class _Access:
    """What the client may do with topics, as in Apache Kafka 4.3.

    Args:
        authorizer: decides.
        call: the context of the request.
    """

    __slots__ = ("_authorizer", "_call", "_deletes_all")

    def __init__(self, authorizer: Authorizer, call: Call) -> None:
        self._authorizer = authorizer
        self._call = call
        self._deletes_all = allows_on_cluster(authorizer, call, AclOperation.DELETE, logs_denied=False)

    def may(self, operation: AclOperation, name: str) -> bool:
        """Return whether the client may describe or delete a topic."""
        return self._deletes_all or self._authorizer.allows(self._call, operation, ResourceType.TOPIC, name)


def _delete_entries(
    call: Call,
    authorizer: Authorizer,
    metadata: MetadataCache,
    topics: TopicController,
    wanted: Iterable[_Wanted],
    parts: Parts[DeleteTopicsResponse],
    permit: Permit,
) -> Work[list[Result]]:
    """Delete topics as Apache Kafka 3.9 does, and return the result of each entry, without texts.

    If several entries mean the same topic, only the first one shows a failure; the others have no error.

    Raises:
        BrokerError: INVALID_REQUEST, an entry has both a name and an id.
    """
    image = metadata.image
    results: list[Result] = []
    first: dict[str, Result] = {}
    for name, topic_id in wanted:
        if name is not None and topic_id != ZERO_UUID:
            raise BrokerError(ErrorCode.INVALID_REQUEST)
        topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
        results.append(result := Result(name if topic is None else topic.name, topic_id))
        known = name if topic is None else topic.name
        if name is None and topic_id == ZERO_UUID:
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # nobody may delete a topic without a name
        elif known is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif name is None and not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, known):
            result.name, result.error_code = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not authorizer.allows(call, AclOperation.DELETE, ResourceType.TOPIC, known):
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is not None:
            first.setdefault(topic.name, result)
        else:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield
    for name, result in first.items():
        _begin(call, topics, image.topics[name], parts, result, permit, has_text=False)
        yield
    return results


def _delete_topics(
    call: Call,
    access: _Access,
    metadata: MetadataCache,
    topics: TopicController,
    wanted: Iterable[_Wanted],
    parts: Parts[DeleteTopicsResponse],
    permit: Permit,
    *,
    is_late: bool,
) -> Work[list[Result]]:
    """Delete topics as Apache Kafka 4.3 does, and return one result for each."""
    counts = yield from counted(wanted)
    results = []
    for each in counts:
        image = metadata.image
        if not _is_named(image, access, each, counts):
            results.append(_delete(call, access, image, topics, each, counts, parts, permit, is_late=is_late))
        yield
    return results


def _is_named(image: MetadataImage, access: _Access, wanted: _Wanted, counts: Mapping[_Wanted, int]) -> bool:
    """Return whether the request also names the topic with this id, in which case only the name gets a response.

    A client that may not delete the topic gets a response for both, as it must not learn that they mean the same.
    """
    topic = image.topics_by_id.get(wanted.topic_id)
    return (
        counts[wanted] == 1
        and wanted.name is None
        and topic is not None
        and counts.get(_Wanted(topic.name, ZERO_UUID)) == 1
        and access.may(AclOperation.DELETE, topic.name)
    )


def _delete(
    call: Call,
    access: _Access,
    image: MetadataImage,
    topics: TopicController,
    wanted: _Wanted,
    counts: Mapping[_Wanted, int],
    parts: Parts[DeleteTopicsResponse],
    permit: Permit,
    *,
    is_late: bool,
) -> Result:
    result = Result(*wanted)
    try:
        topic = _find(image, access, wanted, counts)
        if not access.may(AclOperation.DELETE, topic.name):
            if wanted.name is None and access.may(AclOperation.DESCRIBE, topic.name):
                result.name = topic.name
            raise not_authorized(ResourceType.TOPIC)
        result.name, result.topic_id = topic.name, topic.topic_id
        if wanted.name is not None and _Wanted(None, topic.topic_id) in counts:
            reason = "The provided topic name maps to an ID that was already supplied."
            raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
        if is_late:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail or None
        return result
    _begin(call, topics, topic, parts, result, permit)
    return result


def _begin(
    call: Call,
    topics: TopicController,
    topic: TopicImage,
    parts: Parts[DeleteTopicsResponse],
    result: Result,
    permit: Permit,
    *,
    has_text: bool = True,
) -> None:
    """Begin to delete a topic, if the quota permits it; the result follows."""

    def deleted(error: BrokerError | None) -> None:
        result.error_code, result.error_message = ErrorCode.NONE, None
        if error is not None:
            result.error_code, result.error_message = error.code, (error.detail or None) if has_text else None
        parts.arrived()

    parts.expect()
    try:
        permit(len(topic.partitions))
    except BrokerError as error:
        deleted(error)
        return
    # The client gets this error on timeout.
    result.error_code = ErrorCode.REQUEST_TIMED_OUT
    topics.delete(topic, call.now_ms, deleted)


def _find(image: MetadataImage, access: _Access, wanted: _Wanted, counts: Mapping[_Wanted, int]) -> TopicImage:
    """Return the topic to delete.

    Raises:
        BrokerError: the topic does not exist, the client may not know whether it does, or the request is ambiguous.
    """
    name, topic_id = wanted
    if name is None and topic_id == ZERO_UUID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if counts[wanted] > 1:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    else:
        if not access.may(AclOperation.DESCRIBE, name):
            raise not_authorized(ResourceType.TOPIC)
        topic = image.topics.get(name)
        if topic is None:
            reason = "This server does not host this topic-partition."
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    return topic
