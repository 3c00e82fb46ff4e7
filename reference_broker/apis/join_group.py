"""JoinGroup: become a member, or join again because the group asks for it.

1: rebalance timeout, until then the session timeout counts for both. 2: throttle time. 4: a new member has to come back
with the id that it is given (KIP-394). 5: static members (KIP-345). 6: flexible. 7: protocol type in the answer. 8: a
reason. 9: the leader may be told to skip the assignment (KIP-814).
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.groups.requests import Join
from kafkawire.reference_broker.waiting import Waiting
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]

_REBALANCE_TIMEOUT_SINCE = since(JoinGroupRequest, "rebalance_timeout_ms")
_NULL_PROTOCOL_SINCE = since(JoinGroupResponse, "protocol_type")
_SKIP_ASSIGNMENT_SINCE = since(JoinGroupResponse, "skip_assignment")

#: KIP-394; no field of the messages tells.
_MEMBER_ID_REQUIRED_SINCE = 4


@serves(ApiKey.JOIN_GROUP)
def handle(call: Call, request: JoinGroupRequest) -> Waiting:
    """Answer JoinGroup, usually when the other members have joined too."""
    waiting = Waiting()
    has_rebalance_timeout = call.version >= _REBALANCE_TIMEOUT_SINCE
    join = Join(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        # Copied: the request's buffer must not stay as long as the member.
        tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        request.session_timeout_ms,
        request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        call.client_id,
        call.client_host,
        needs_member_id=call.version >= _MEMBER_ID_REQUIRED_SINCE,
        may_skip_assignment=call.version >= _SKIP_ASSIGNMENT_SINCE,
    )

    def reply(response: JoinGroupResponse) -> None:
        if response.error_code and call.version >= _NULL_PROTOCOL_SINCE:
            response.protocol_name = None
        waiting.complete(response)

    call.core.groups.join(join, reply, call.now_ms)
    return waiting
