"""DescribeGroups: return the state, protocol and members of classic groups.

1: throttle time. 3: authorized operations. 4: static members. 5: flexible. 6: a missing group gets an error instead of
the state Dead.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.authorized_operations import authorized_operations
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

DescribedGroup = DescribeGroupsResponse.DescribedGroup

_NOT_FOUND_SINCE = since(DescribedGroup, "error_message")


@serves(ApiKey.DESCRIBE_GROUPS)
def handle(
    call: Call, request: DescribeGroupsRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[Message | DelayedOperation]:
    """Handle DescribeGroups."""

    def ask(group_id: str, put: Callable[[DescribedGroup], None]) -> None:
        def answer(outcome: ClassicGroup | BrokerError) -> None:
            described = _described(call.version, group_id, outcome)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = authorized_operations(authorizer, call, ResourceType.GROUP, group_id)
            put(described)

        if authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            groups.describe(group_id, answer, call.now_ms)
        else:
            answer(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))

    return (
        yield from collect_with_repetitions(
            call, request.groups, ask, lambda found: DescribeGroupsResponse(groups=sorted(found, key=_is_described))
        )
    )


def _described(version: int, group_id: str, outcome: ClassicGroup | BrokerError) -> DescribedGroup:
    if isinstance(outcome, BrokerError) and outcome.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=outcome.code)
    if isinstance(outcome, BrokerError):
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= _NOT_FOUND_SINCE:
            described.error_code = outcome.code
            described.error_message = outcome.detail
        return described
    group = outcome
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
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def _is_described(group: DescribedGroup) -> bool:
    """Return whether the client may describe a group; others come first, as in Kafka."""
    return group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED
