"""ConsumerGroupDescribe: describe KIP-848 groups, their members, and the members' current and target assignments.

1: whether a member uses the classic protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.groups.consumer.changes import preferred_assignor
from kafkawire.reference_broker.groups.consumer.group import NOTHING, ConsumerGroup, Partitions
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.described_groups import GroupDescriptions, describe_groups
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]

Described = ConsumerGroupDescribeResponse.DescribedGroup

#: The types of members.
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


@serves(ApiKey.CONSUMER_GROUP_DESCRIBE, scope=Scope.ALONE)
def handle(
    call: Call,
    request: ConsumerGroupDescribeRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    groups: GroupCoordinator,
) -> Work[Message | DelayedOperation]:
    """Handle ConsumerGroupDescribe."""

    def describe(group_id: str, put: Callable[[Described], None]) -> None:
        groups.describe_consumer(group_id, lambda outcome: put(_described(metadata, group_id, outcome)), call.now_ms)

    return (yield from describe_groups(call, request, authorizer, _DESCRIPTIONS, describe))


def _topics(described: Described) -> set[str]:
    """Return the topics that the members of a group have been assigned."""
    return {
        topic.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


_DESCRIPTIONS: Final = GroupDescriptions(
    Described,
    _topics,
    "The group has described topic(s) that the client is not authorized to describe.",
    lambda found: ConsumerGroupDescribeResponse(groups=found),
)


def _described(metadata: MetadataCache, group_id: str, outcome: ConsumerGroup | BrokerError) -> Described:
    if isinstance(outcome, BrokerError):
        return Described(outcome.code, outcome.detail or None, group_id)
    group = outcome
    return Described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members),
        members=[
            ConsumerGroupDescribeResponse.Member(
                member.member_id,
                member.instance_id,
                member.rack_id,
                member.epoch,
                member.client_id,
                member.client_host,
                list(member.topics),
                member.regex,
                _assignment(metadata, member.owned),
                _assignment(metadata, group.target.get(member.member_id, NOTHING)),
                _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
            )
            for member in group.members.values()
        ],
    )


def _assignment(metadata: MetadataCache, owned: Partitions) -> ConsumerGroupDescribeResponse.Assignment:
    topics = metadata.image.topics_by_id
    return ConsumerGroupDescribeResponse.Assignment(
        [
            ConsumerGroupDescribeResponse.TopicPartitions(topic_id, topics[topic_id].name, sorted(numbers))
            for topic_id, numbers in owned.items()
            if topic_id in topics
        ]
    )
