"""ListGroups: the groups that this broker coordinates.

1: throttle time. 3: flexible. 4: by state. 5: by type.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Listed = ListGroupsResponse.ListedGroup


@serves(ApiKey.LIST_GROUPS)
def handle(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Handle ListGroups."""
    groups = call.core.groups
    if groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = [
        Listed(group.group_id, group.protocol_type or "", group.state.value, "classic")
        for group in groups.classic_groups()
    ]
    listed += [
        Listed(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, "consumer")
        for group in groups.consumer_groups()
    ]
    return ListGroupsResponse(
        groups=[
            group
            for group in listed
            if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
        ]
    )
