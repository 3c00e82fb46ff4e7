"""LeaveGroup: remove members from a group.

0: one member. 1: throttle time. 3: several members, including static ones by instance id (KIP-345). 4: flexible. 5: a
reason.
"""

from __future__ import annotations

from functools import partial
from itertools import chain

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.requests.merged_response import AwaitedParts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: Maximum number of members that leave in one turn, since a group removes all members passed to it without a pause.
_AT_A_TIME = 100

MemberResponse = LeaveGroupResponse.MemberResponse

_SEVERAL_SINCE = since(LeaveGroupRequest, "members")


@serves(ApiKey.LEAVE_GROUP)
def handle(
    call: Call, request: LeaveGroupRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[LeaveGroupResponse | DelayedOperation]:
    """Handle LeaveGroup."""
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    delayed = DelayedOperation()
    if call.version < _SEVERAL_SINCE:
        leaving: list[tuple[str, str | None]] = [(request.member_id, None)]
    else:
        leaving = yield from each(request.members, lambda member: (member.member_id, member.group_instance_id))

    def complete(outcomes: list[list[ErrorCode] | BrokerError]) -> None:
        complete_by_work(call, delayed, _respond(call.version, leaving, outcomes))

    together = [leaving[first : first + _AT_A_TIME] for first in range(0, len(leaving) or 1, _AT_A_TIME)]
    parts = AwaitedParts[list[ErrorCode] | BrokerError](len(together), complete)
    for number, members in enumerate(together):
        groups.leave(request.group_id, members, partial(parts.put, number), call.now_ms)
        yield
    return delayed


def _respond(
    version: int, leaving: list[tuple[str, str | None]], outcomes: list[list[ErrorCode] | BrokerError]
) -> Work[LeaveGroupResponse]:
    codes: list[list[ErrorCode]] = []
    for outcome in outcomes:
        if isinstance(outcome, BrokerError):
            return LeaveGroupResponse(error_code=outcome.code)
        codes.append(outcome)
    if version < _SEVERAL_SINCE:
        return LeaveGroupResponse(error_code=codes[0][0])
    members = zip(leaving, chain.from_iterable(codes), strict=True)
    return LeaveGroupResponse(members=(yield from each(members, lambda entry: MemberResponse(*entry[0], entry[1]))))
