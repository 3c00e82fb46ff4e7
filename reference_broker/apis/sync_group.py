"""SyncGroup: hand in the assignment as leader, or get one's own.

1: throttle time. 3: static members. 4: flexible. 5: protocol type and name, so that a mistake is seen.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.groups.requests import Sync
from kafkawire.reference_broker.waiting import Waiting
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_PROTOCOL_SINCE = since(SyncGroupRequest, "protocol_type")


@serves(ApiKey.SYNC_GROUP)
def handle(call: Call, request: SyncGroupRequest) -> SyncGroupResponse | Waiting:
    """Answer SyncGroup, when the leader has handed in the assignment."""
    if call.version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    waiting = Waiting()
    sync = Sync(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {entry.member_id: bytes(entry.assignment) for entry in request.assignments},
    )
    call.core.groups.sync(sync, waiting.complete, call.now_ms)
    return waiting
