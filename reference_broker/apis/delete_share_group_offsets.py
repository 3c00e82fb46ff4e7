"""DeleteShareGroupOffsets: delete the offsets of topics from a share group without members.

0: the first version.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.share.share_groups import DeletedOffsets, ShareGroups
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType

__all__ = ["handle"]

Topic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


@serves(ApiKey.DELETE_SHARE_GROUP_OFFSETS, scope=Scope.ALONE)
def handle(
    call: Call, request: DeleteShareGroupOffsetsRequest, *, authorizer: Authorizer, share_groups: ShareGroups
) -> Work[DelayedOperation]:
    """Handle DeleteShareGroupOffsets.

    Raises:
        BrokerError: GROUP_AUTHORIZATION_FAILED.
    """
    if not authorizer.allows(call, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        raise not_authorized(ResourceType.GROUP)
    denial = not_authorized(ResourceType.TOPIC)
    denied: list[Topic] = []
    names: list[str] = []
    for name in dict.fromkeys(topic.topic_name for topic in request.topics):
        if authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, name):
            names.append(name)
        else:
            denied.append(Topic(name, error_code=denial.code, error_message=denial.detail))
        yield
    delayed = DelayedOperation()

    def answer(outcome: DeletedOffsets | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            delayed.complete(DeleteShareGroupOffsetsResponse(0, outcome.code, outcome.detail))
            return
        topics = [*denied]
        topics += [Topic(name, topic_id) for topic_id, name in outcome.deleted.items()]
        topics += [Topic(name, error_code=code, error_message=text) for name, (code, text) in outcome.refused.items()]
        topics += [Topic(name, topic_id, *result) for topic_id, (name, result) in outcome.failed.items()]
        delayed.complete(DeleteShareGroupOffsetsResponse(responses=topics))

    share_groups.delete_offsets(request.group_id, names, answer, call.now_ms)
    return delayed
