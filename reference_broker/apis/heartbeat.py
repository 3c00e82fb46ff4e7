"""Heartbeat: keep a member's session alive, and tell the member whether it has to rejoin.

1: throttle time. 3: static members. 4: flexible.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.HEARTBEAT)
def handle(
    call: Call, request: HeartbeatRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> HeartbeatResponse | DelayedOperation:
    """Handle Heartbeat."""
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    delayed = DelayedOperation()
    groups.heartbeat(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        lambda code: delayed.complete(HeartbeatResponse(error_code=code)),
        call.now_ms,
    )
    return delayed
