"""DeleteGroups: delete groups without members, and their offsets.

1: may be throttled. 2: flexible.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]


@serves(ApiKey.DELETE_GROUPS)
def handle(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Handle DeleteGroups."""
    results = []
    for group_id in request.groups_names:
        result = DeleteGroupsResponse.DeletableGroupResult(group_id)
        try:
            call.core.groups.delete(group_id, call.now_ms)
        except BrokerError as error:
            result.error_code = error.code
        results.append(result)
    return DeleteGroupsResponse(results=results)
