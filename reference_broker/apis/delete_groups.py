"""DeleteGroups: delete groups without members, and their offsets.

1: throttling. 2: flexible.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.groups.share.share_groups import ShareGroups
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, counted
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Deleted = DeleteGroupsResponse.DeletableGroupResult


@serves(ApiKey.DELETE_GROUPS)
def handle(
    call: Call, request: DeleteGroupsRequest, *, authorizer: Authorizer, share_groups: ShareGroups
) -> Work[Message | DelayedOperation]:
    """Handle DeleteGroups; a group named twice is deleted once."""

    def ask(group_id: str, put: Callable[[Deleted], None]) -> None:
        def answer(outcome: BrokerError | None) -> None:
            put(Deleted(group_id, ErrorCode.NONE if outcome is None else outcome.code))

        if authorizer.allows(call, AclOperation.DELETE, ResourceType.GROUP, group_id):
            share_groups.delete(group_id, answer, call.now_ms)
        else:
            answer(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))

    group_ids = yield from counted(request.groups_names)
    return (
        yield from collect_with_repetitions(
            call, list(group_ids), ask, lambda found: DeleteGroupsResponse(results=sorted(found, key=_is_refused))
        )
    )


def _is_refused(result: Deleted) -> bool:
    """Return whether the client may not delete a group; such groups come last, as in Kafka."""
    return result.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
