"""LeaveGroup: remove members from a group.

0: one member. 1: throttle time. 3: several members, including static ones by instance id (KIP-345). 4: flexible. 5: a
reason.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_SEVERAL_SINCE = since(LeaveGroupRequest, "members")


@serves(ApiKey.LEAVE_GROUP)
def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Handle LeaveGroup."""
    if call.version < _SEVERAL_SINCE:
        return LeaveGroupResponse(error_code=_leave(call, request.group_id, request.member_id, None))
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member.member_id,
                member.group_instance_id,
                _leave(call, request.group_id, member.member_id, member.group_instance_id),
            )
            for member in request.members
        ]
    )


def _leave(call: Call, group_id: str, member_id: str, instance_id: str | None) -> ErrorCode:
    try:
        call.core.groups.leave(group_id, member_id, instance_id, call.now_ms)
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE
