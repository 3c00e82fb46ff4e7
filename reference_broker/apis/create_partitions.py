"""CreatePartitions: add partitions to topics, or only validate the request.

0: the lowest version. 2: flexible. 3: throttling.

As in Kafka, internal topics can also gain partitions; their coordinator uses these after the next startup.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import PARTITIONS_MAX
from kafkawire.reference_broker.metadata.topic_controller import Permit, TopicController
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    CREATE_PARTITIONS_FIRST_WITH_STRICT_QUOTA,
    AclOperation,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Topic = CreatePartitionsRequest.CreatePartitionsTopic
Result = CreatePartitionsResponse.CreatePartitionsTopicResult


@serves(ApiKey.CREATE_PARTITIONS, only_on_controller=True)
def handle(
    call: Call,
    request: CreatePartitionsRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    throttling: Throttling,
    topics: TopicController,
) -> Work[CreatePartitionsResponse | DelayedOperation]:
    """Handle CreatePartitions; the response waits until the partitions are durable, or until the timeout."""
    permits = throttling.permits(call, strict_since=CREATE_PARTITIONS_FIRST_WITH_STRICT_QUOTA)
    parts: Parts[CreatePartitionsResponse] = Parts()
    asked: dict[str, list[Topic]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, []).append(topic)
        yield
    results = []
    for name, same in asked.items():
        if len(same) > 1:
            results.append(Result(name))
            _refuse(results[-1], BrokerError(ErrorCode.INVALID_REQUEST, topics.texts.extended_twice))
        yield
    room = PARTITIONS_MAX
    for name, same in asked.items():
        if len(same) == 1:
            results.append(Result(name))
            try:
                if not authorizer.allows(call, AclOperation.ALTER, ResourceType.TOPIC, name):
                    raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topics.texts.may_not_be_extended)
                room -= yield from _grow(request, metadata, topics, same[0], results[-1], parts, room, permits.take)
            except BrokerError as error:
                _refuse(results[-1], error)
        yield
    response = CreatePartitionsResponse(results=results)
    if request.timeout_ms <= 0 and (request.validate_only or topics.acts_without_time):
        return parts.respond(response)  # no time limits the checks; `_grow` limits the wait for what was added
    return parts.respond_by(call.now_ms + request.timeout_ms, call.timers, response)


def _grow(
    request: CreatePartitionsRequest,
    metadata: MetadataCache,
    topics: TopicController,
    wanted: Topic,
    result: Result,
    parts: Parts[CreatePartitionsResponse],
    room: int,
    permit: Permit,
) -> Work[int]:
    """Add partitions to a topic if allowed; return their number.

    Args:
        request: the request.
        metadata: see `MetadataCache`.
        topics: see `TopicController`.
        wanted: the part of the request for this topic.
        result: the part of the response for this topic.
        parts: collects the parts of the response.
        room: how many partitions the request may still add.
        permit: see `Permit`.

    Raises:
        BrokerError: the increase is not allowed.
    """
    if request.timeout_ms <= 0 and not topics.acts_without_time:
        raise BrokerError(ErrorCode.REQUEST_TIMED_OUT)
    topic = metadata.image.topics.get(wanted.name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topics.texts.missing.format(wanted.name))
    additional = topics.check_partitions(topic, wanted.count)
    if additional > room:
        # Kafka fails with UNKNOWN_SERVER_ERROR.
        reason = f"cannot add {additional} partitions; the limit for all topics in a request is {PARTITIONS_MAX}"
        raise BrokerError(ErrorCode.POLICY_VIOLATION, reason)
    replicas = None
    if wanted.assignments is not None:
        replicas = yield from each(wanted.assignments, lambda assignment: assignment.broker_ids)
        yield from topics.check_assignments(replicas, additional)

    def grown(outcome: TopicImage | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            _refuse(result, outcome)
        else:
            result.error_code, result.error_message = ErrorCode.NONE, None
        parts.arrived()

    # The client gets this error on timeout; the partitions are still created.
    _refuse(result, BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    parts.expect()
    wait_ms = max(request.timeout_ms, 0)
    topics.add_partitions(
        topic,
        wanted.count,
        grown,
        assignments=replicas,
        wait_ms=wait_ms,
        validate_only=request.validate_only,
        permit=permit,
    )
    return additional


def _refuse(result: Result, error: BrokerError) -> None:
    result.error_code, result.error_message = error.code, error.detail or None
