"""DescribeGroups: state, protocol and members of classic groups.

1: throttle time. 3: authorized operations. 4: static members. 5: flexible. 6: a missing group is an error, not a dead
group.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.groups.group import GroupState
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

DescribedGroup = DescribeGroupsResponse.DescribedGroup

_NOT_FOUND_SINCE = since(DescribedGroup, "error_message")


@serves(ApiKey.DESCRIBE_GROUPS)
def handle(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Handle DescribeGroups."""
    return DescribeGroupsResponse(groups=[_describe(call, group_id) for group_id in request.groups])


def _describe(call: Call, group_id: str) -> DescribedGroup:
    group = call.core.groups.groups.get(group_id)
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if call.version >= _NOT_FOUND_SINCE:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol_name) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
