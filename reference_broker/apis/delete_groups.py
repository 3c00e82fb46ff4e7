"""DeleteGroups: delete groups without members, and their offsets.

1: may be throttled. 2: flexible.
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.gathering import Gathering
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Deleted = DeleteGroupsResponse.DeletableGroupResult


@serves(ApiKey.DELETE_GROUPS)
def handle(call: Call, request: DeleteGroupsRequest) -> DelayedOperation:
    """Handle DeleteGroups."""
    delayed = DelayedOperation()
    # A group that is named twice is deleted once.
    group_ids = dict.fromkeys(request.groups_names)
    parts = Gathering[Deleted](len(group_ids), lambda found: delayed.complete(DeleteGroupsResponse(results=found)))

    def answer(number: int, group_id: str, outcome: BrokerError | None) -> None:
        parts.put(number, Deleted(group_id, ErrorCode.NONE if outcome is None else outcome.code))

    for number, group_id in enumerate(group_ids):
        call.core.groups.delete(group_id, partial(answer, number, group_id), call.now_ms)
    return delayed
