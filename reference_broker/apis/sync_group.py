"""SyncGroup: the leader submits all assignments, and each member gets its own.

1: throttle time. 3: static members. 4: flexible. 5: protocol type and name, to detect mismatches.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import Sync
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_PROTOCOL_SINCE = since(SyncGroupRequest, "protocol_type")


@serves(ApiKey.SYNC_GROUP)
def handle(
    call: Call, request: SyncGroupRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[SyncGroupResponse | DelayedOperation]:
    """Handle SyncGroup; the response waits for the leader's assignment."""
    if call.version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assignments = {}
    for entry in request.assignments:
        assignments[entry.member_id] = bytes(entry.assignment)
        yield
    delayed_sync = DelayedOperation()
    sync = Sync(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        assignments,
    )
    groups.sync(sync, delayed_sync.complete, call.now_ms)
    return delayed_sync
