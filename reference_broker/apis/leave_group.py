"""LeaveGroup: remove members from a group.

0: one member. 1: throttle time. 3: several members, including static ones by instance id (KIP-345). 4: flexible. 5: a
reason.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_SEVERAL_SINCE = since(LeaveGroupRequest, "members")


@serves(ApiKey.LEAVE_GROUP)
def handle(call: Call, request: LeaveGroupRequest) -> DelayedOperation:
    """Handle LeaveGroup."""
    delayed = DelayedOperation()
    if call.version < _SEVERAL_SINCE:
        leaving: list[tuple[str, str | None]] = [(request.member_id, None)]
    else:
        leaving = [(member.member_id, member.group_instance_id) for member in request.members]

    def answer(outcome: list[ErrorCode] | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            response = LeaveGroupResponse(error_code=outcome.code)
        elif call.version < _SEVERAL_SINCE:
            response = LeaveGroupResponse(error_code=outcome[0])
        else:
            responses = [
                LeaveGroupResponse.MemberResponse(member_id, instance_id, code)
                for (member_id, instance_id), code in zip(leaving, outcome, strict=True)
            ]
            response = LeaveGroupResponse(members=responses)
        delayed.complete(response)

    call.core.groups.leave(request.group_id, leaving, answer, call.now_ms)
    return delayed
