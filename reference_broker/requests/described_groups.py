"""Responses that describe groups: what is the same for groups of all types but classic ones.

A client may describe a group and the topics that its description names, or else gets an error in place of the
description.

Source: `KafkaApis.handleConsumerGroupDescribe`, `handleShareGroupDescribe`, `handleStreamsGroupDescribe` in Apache
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkawire.reference_broker.requests.authorized_operations import authorized_operations
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["DescribeRequest", "GroupDescriptions", "describe_groups"]

G = TypeVar(
    "G",
    ConsumerGroupDescribeResponse.DescribedGroup,
    ShareGroupDescribeResponse.DescribedGroup,
    StreamsGroupDescribeResponse.DescribedGroup,
)


class DescribeRequest(Protocol):
    """A request to describe groups."""

    group_ids: Sequence[str]
    include_authorized_operations: bool


class GroupDescriptions(NamedTuple, Generic[G]):
    """The descriptions of groups of one type.

    Attributes:
        refusal: returns what stands for a group that is not described: a code, a text or None, and the group's id.
        topics: returns the topics that a description names.
        hidden_topics: the text of the error if the client may not describe all of these topics.
        response: returns the response with the descriptions.
    """

    refusal: Callable[[int, str | None, str], G]
    topics: Callable[[G], Collection[str]]
    hidden_topics: str
    response: Callable[[list[G]], Message]


def describe_groups(
    call: Call,
    request: DescribeRequest,
    authorizer: Authorizer,
    descriptions: GroupDescriptions[G],
    describe: Callable[[str, Callable[[G], None]], None],
) -> Work[Message | DelayedOperation]:
    """Answer a request to describe groups.

    Args:
        call: the context of the request.
        request: the request.
        authorizer: decides what the client may describe.
        descriptions: see `GroupDescriptions`.
        describe: describes the group with an id, or the error that it met, and passes that on once it is known.

    Raises:
        BrokerError: see `Repetitions`.
    """

    def may_describe(topic: str) -> bool:
        return authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def ask(group_id: str, put: Callable[[G], None]) -> None:
        def answer(described: G) -> None:
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = authorized_operations(authorizer, call, ResourceType.GROUP, group_id)
            if authorizer.acls is not None and not all(map(may_describe, descriptions.topics(described))):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                described = descriptions.refusal(code, descriptions.hidden_topics, group_id)
            put(described)

        if authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            describe(group_id, answer)
        else:
            put(descriptions.refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id))

    def respond(found: list[G]) -> Message:
        # Groups that the client may not describe come first, as in Kafka.
        return descriptions.response(
            sorted(found, key=lambda group: group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED)
        )

    return (yield from collect_with_repetitions(call, request.group_ids, ask, respond))
