"""ListGroups: list the groups that this broker coordinates.

1: throttle time. 3: flexible. 4: by state. 5: by type.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.classic.group import ClassicGroup
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.share.group import SHARE_GROUP_TYPE, ShareGroup
from kafkawire.reference_broker.groups.streams.group import STREAMS_GROUP_TYPE, StreamsGroup, StreamsGroupState
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Listed = ListGroupsResponse.ListedGroup
Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup


@serves(ApiKey.LIST_GROUPS)
def handle(
    call: Call, request: ListGroupsRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[ListGroupsResponse]:
    """Handle ListGroups: list the groups that the client may describe, which are all if it may describe the cluster."""
    sees_all = allows_on_cluster(authorizer, call, AclOperation.DESCRIBE, logs_denied=False)
    if groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = []
    known: list[Group] = [*groups.classic_groups(), *groups.consumer_groups(), *groups.share_groups()]
    known += groups.streams_groups()
    for group in known:
        group_id = group.group_id
        if not (
            sees_all or authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.GROUP, group_id, logs_denied=False)
        ):
            yield
            continue
        each = _listed(group)
        if (not states or _word(each.group_state) in states) and (not types or each.group_type in types):
            listed.append(each)
        yield
    return ListGroupsResponse(groups=listed)


def _word(state: str) -> str:
    """Return a state as filters name it, in lower case; as in Kafka, one state has another name there."""
    return "not_ready" if state == StreamsGroupState.NOT_READY else state.lower()


def _listed(group: Group) -> Listed:
    if isinstance(group, ClassicGroup):
        return Listed(group.group_id, group.protocol_type or "", group.state.value, "classic")
    if isinstance(group, ConsumerGroup):
        return Listed(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, "consumer")
    if isinstance(group, ShareGroup):
        return Listed(group.group_id, SHARE_GROUP_TYPE, group.state.value, SHARE_GROUP_TYPE)
    return Listed(group.group_id, STREAMS_GROUP_TYPE, group.state.value, STREAMS_GROUP_TYPE)
