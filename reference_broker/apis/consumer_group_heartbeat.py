"""ConsumerGroupHeartbeat: join, stay in, or leave a KIP-848 group.

0: the first version. 1: subscriptions by regular expression; members generate their ids.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import ConsumerHeartbeat
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import describable_topics
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


_IDS_OF_MEMBERS_SINCE = since(ConsumerGroupHeartbeatRequest, "subscribed_topic_regex")


@serves(ApiKey.CONSUMER_GROUP_HEARTBEAT, scope=Scope.ALONE)
def handle(
    call: Call, request: ConsumerGroupHeartbeatRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[ConsumerGroupHeartbeatResponse | DelayedOperation]:
    """Handle ConsumerGroupHeartbeat."""
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for name in request.subscribed_topic_names or ():
        if not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield
    delayed = DelayedOperation()
    owned: dict[bytes, frozenset[int]] | None = None
    if request.topic_partitions is not None:
        owned = {}
        for part in request.topic_partitions:
            owned[bytes(part.topic_id)] = frozenset(part.partitions)
            yield

    def answer(outcome: ConsumerGroupHeartbeatResponse | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            outcome = ConsumerGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.detail)
        delayed.complete(outcome)

    beat = ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        owned,
        call.client_id,
        call.client_host,
        may_lack_id=call.version < _IDS_OF_MEMBERS_SINCE,
        may_describe=describable_topics(authorizer, call),
    )
    groups.beat(beat, answer, call.now_ms)
    return delayed
