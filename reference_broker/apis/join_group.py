"""JoinGroup: become a member, or rejoin for a rebalance.

1: rebalance timeout; before that, the session timeout serves as both. 2: throttle time. 4: a new member must rejoin
    with the id assigned to it (KIP-394). 5: static members (KIP-345). 6: flexible. 7: protocol type in the response. 8:
    a reason. 9: the leader may be told to skip the assignment (KIP-814).
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import Join
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.authorization import describable_topics
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_REBALANCE_TIMEOUT_SINCE = since(JoinGroupRequest, "rebalance_timeout_ms")
_NULL_PROTOCOL_SINCE = since(JoinGroupResponse, "protocol_type")
_SKIP_ASSIGNMENT_SINCE = since(JoinGroupResponse, "skip_assignment")

#: KIP-394, which added no field.
_MEMBER_ID_REQUIRED_SINCE = 4


@serves(ApiKey.JOIN_GROUP)
def handle(
    call: Call, request: JoinGroupRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[DelayedOperation]:
    """Handle JoinGroup; the response usually waits until the other members have joined."""
    delayed_join = DelayedOperation()

    def reply(response: JoinGroupResponse) -> None:
        if response.error_code and call.version >= _NULL_PROTOCOL_SINCE:
            response.protocol_name = None
        delayed_join.complete(response)

    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        reply(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return delayed_join
    has_rebalance_timeout = call.version >= _REBALANCE_TIMEOUT_SINCE
    # The data is copied; otherwise, a member would keep the request's buffer alive.
    protocols = yield from each(request.protocols, lambda protocol: (protocol.name, bytes(protocol.metadata)))
    join = Join(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        tuple(protocols),
        request.session_timeout_ms,
        request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        call.client_id,
        call.client_host,
        needs_member_id=call.version >= _MEMBER_ID_REQUIRED_SINCE,
        may_skip_assignment=call.version >= _SKIP_ASSIGNMENT_SINCE,
        may_describe=describable_topics(authorizer, call),
    )
    groups.join(join, reply, call.now_ms)
    return delayed_join
