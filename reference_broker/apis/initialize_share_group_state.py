"""InitializeShareGroupState: begin the delivery state of share partitions; sent by the group coordinator.

0: the first version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect
from kafkawire.reference_broker.requests.share_states import by_topic, named_shares, told
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]

Result = InitializeShareGroupStateResponse.PartitionResult


@serves(ApiKey.INITIALIZE_SHARE_GROUP_STATE, scope=Scope.ALONE)
def handle(
    call: Call, request: InitializeShareGroupStateRequest, *, authorizer: Authorizer, shares: Shares
) -> Work[Message | DelayedOperation]:
    """Handle InitializeShareGroupState.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION, names_operation=False)
    named = yield from named_shares(request.group_id, request.topics)

    def ask(share: SharePartitionKey, put: Callable[[Result], None]) -> None:
        def ended(outcome: BrokerError | None) -> None:
            put(Result(share.partition, *told(outcome, "initialize share group state")))

        wanted = named[share]
        shares.coordinator.initialize(share, wanted.state_epoch, wanted.start_offset, ended, call.now_ms)

    return (yield from collect(call, named, ask, _response))


def _response(parts: Mapping[SharePartitionKey, Result]) -> Work[Message]:
    topics = yield from by_topic(parts)
    Topic = InitializeShareGroupStateResponse.InitializeStateResult
    return InitializeShareGroupStateResponse([Topic(topic_id, results) for topic_id, results in topics.items()])
