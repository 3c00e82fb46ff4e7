"""DeleteTopics: delete topics and their data.

1: lowest version of Kafka 4. 4: flexible. 5: error texts. 6: by topic id too.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.core import INTERNAL_TOPICS
from kafkawire.reference_broker.delayed_operations import DelayedOperation, Parts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]


@serves(ApiKey.DELETE_TOPICS)
def handle(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse | DelayedOperation:
    """Handle DeleteTopics; the response is delayed until the topics cannot come back, or for as long as it may take."""
    parts: Parts[DeleteTopicsResponse] = Parts()
    wanted = request.topics or [DeleteTopicsRequest.DeleteTopicState(name) for name in request.topic_names]
    results = [_delete(call, state, parts, is_late=request.timeout_ms <= 0) for state in wanted]
    deadline_ms = call.now_ms + request.timeout_ms
    return parts.respond_by(deadline_ms, call.core.timers, DeleteTopicsResponse(responses=results))


def _delete(
    call: Call, state: DeleteTopicsRequest.DeleteTopicState, parts: Parts[DeleteTopicsResponse], *, is_late: bool
) -> DeleteTopicsResponse.DeletableTopicResult:
    result = DeleteTopicsResponse.DeletableTopicResult(state.name, state.topic_id)
    directory = call.core.directory
    try:
        if state.name is not None and state.topic_id != ZERO_UUID:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Topic name and topic id can not both be specified.")
        if state.name is None:
            topic = directory.topics_by_id.get(state.topic_id)
            if topic is None:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        else:
            topic = directory.topics.get(state.name)
            if topic is None:
                raise BrokerError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
                )
        result.name, result.topic_id = topic.name, topic.topic_id
        if topic.name in INTERNAL_TOPICS:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{topic.name} is an internal topic.")
        if is_late:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail or None
        return result

    def deleted(error: BrokerError | None) -> None:
        result.error_code, result.error_message = (
            (ErrorCode.NONE, None) if error is None else (error.code, error.detail)
        )
        parts.arrived()

    # What the client is told if that takes too long.
    result.error_code = ErrorCode.REQUEST_TIMED_OUT
    parts.expect()
    call.core.delete_topic(topic, call.now_ms, deleted)
    return result
