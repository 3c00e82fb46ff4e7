"""ShareGroupHeartbeat: join, stay in, or leave a share group.

1: the first version outside of early access.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.share.requests import ShareHeartbeat
from kafkawire.reference_broker.groups.share.share_groups import ShareGroups
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.share_members import is_member_id
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.SHARE_GROUP_HEARTBEAT, scope=Scope.ALONE)
def handle(
    call: Call, request: ShareGroupHeartbeatRequest, *, authorizer: Authorizer, share_groups: ShareGroups
) -> Work[ShareGroupHeartbeatResponse | DelayedOperation]:
    """Handle ShareGroupHeartbeat."""
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id(request.member_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
    for name in request.subscribed_topic_names or ():
        if not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield
    delayed = DelayedOperation()

    def answer(outcome: ShareGroupHeartbeatResponse | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            outcome = ShareGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.detail)
        delayed.complete(outcome)

    beat = ShareHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        request.subscribed_topic_names,
        call.client_id,
        call.client_host,
    )
    share_groups.beat(beat, answer, call.now_ms)
    return delayed
