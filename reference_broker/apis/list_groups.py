"""ListGroups: the groups that this broker coordinates.

1: throttle time. 3: flexible. 4: by state. 5: by type.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]

#: The type of every group here.
_CLASSIC = "classic"


@serves(ApiKey.LIST_GROUPS)
def handle(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Handle ListGroups."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(group.group_id, group.protocol_type or "", group.state.value, _CLASSIC)
            for group in call.core.groups.groups.values()
            if (not states or group.state.value.lower() in states) and (not types or _CLASSIC in types)
        ]
    )
