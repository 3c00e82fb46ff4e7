"""Heartbeat: keep a member's session alive, and tell it whether it has to rejoin.

1: throttle time. 3: static members. 4: flexible.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]


@serves(ApiKey.HEARTBEAT)
def handle(call: Call, request: HeartbeatRequest) -> DelayedOperation:
    """Handle Heartbeat."""
    delayed = DelayedOperation()
    call.core.groups.heartbeat(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        lambda code: delayed.complete(HeartbeatResponse(error_code=code)),
        call.now_ms,
    )
    return delayed
