"""ShareGroupDescribe: describe share groups, their members, and the members' assignments.

1: the first version outside of early access.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.share.group import ShareGroup
from kafkawire.reference_broker.groups.share.share_groups import ShareGroups
from kafkawire.reference_broker.groups.share.simple_assignor import SIMPLE_ASSIGNOR
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.described_groups import GroupDescriptions, describe_groups
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]

Described = ShareGroupDescribeResponse.DescribedGroup


@serves(ApiKey.SHARE_GROUP_DESCRIBE, scope=Scope.ALONE)
def handle(
    call: Call,
    request: ShareGroupDescribeRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    share_groups: ShareGroups,
) -> Work[Message | DelayedOperation]:
    """Handle ShareGroupDescribe."""

    def describe(group_id: str, put: Callable[[Described], None]) -> None:
        share_groups.describe(group_id, lambda outcome: put(_described(metadata, group_id, outcome)), call.now_ms)

    return (yield from describe_groups(call, request, authorizer, _DESCRIPTIONS, describe))


def _topics(described: Described) -> set[str]:
    """Return the topics that the members of a group have been assigned."""
    return {topic.topic_name for member in described.members for topic in member.assignment.topic_partitions}


_DESCRIPTIONS: Final = GroupDescriptions(
    Described,
    _topics,
    "The group has described topic(s) that the client is not authorized to describe.",
    lambda found: ShareGroupDescribeResponse(groups=found),
)


def _described(metadata: MetadataCache, group_id: str, outcome: ShareGroup | BrokerError) -> Described:
    if isinstance(outcome, BrokerError):
        # As in Kafka, an empty id has no text.
        return Described(outcome.code, outcome.detail if group_id else None, group_id)
    return Described(
        group_id=group_id,
        group_state=outcome.state.value,
        group_epoch=outcome.epoch,
        assignment_epoch=outcome.assignment_epoch,
        assignor_name=SIMPLE_ASSIGNOR,
        members=[
            ShareGroupDescribeResponse.Member(
                member.member_id,
                member.rack_id,
                member.epoch,
                member.client_id,
                member.client_host,
                list(member.topics),
                _assignment(metadata, member.assigned),
            )
            for member in outcome.members.values()
        ],
    )


def _assignment(metadata: MetadataCache, assigned: Partitions) -> ShareGroupDescribeResponse.Assignment:
    topics = metadata.image.topics_by_id
    return ShareGroupDescribeResponse.Assignment(
        [
            ShareGroupDescribeResponse.TopicPartitions(topic_id, topics[topic_id].name, sorted(numbers))
            for topic_id, numbers in assigned.items()
            if topic_id in topics
        ]
    )
