"""ReadShareGroupState: read the delivery state of share partitions; sent by the leaders of the partitions.

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
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]

Result = ReadShareGroupStateResponse.PartitionResult


@serves(ApiKey.READ_SHARE_GROUP_STATE, scope=Scope.ALONE)
def handle(
    call: Call, request: ReadShareGroupStateRequest, *, authorizer: Authorizer, shares: Shares
) -> Work[Message | DelayedOperation]:
    """Handle ReadShareGroupState; a higher leader epoch is stored, and fences earlier leaders.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION, names_operation=False)
    named = yield from named_shares(request.group_id, request.topics)

    def ask(share: SharePartitionKey, put: Callable[[Result], None]) -> None:
        shares.coordinator.read(
            share, named[share].leader_epoch, lambda outcome: put(_result(share, outcome)), call.now_ms
        )

    return (yield from collect(call, named, ask, _response))


def _result(share: SharePartitionKey, outcome: ShareState | BrokerError) -> Result:
    result = Result(share.partition, *told(outcome, "read share group state"))
    if isinstance(outcome, ShareState):
        result.state_epoch, result.start_offset = outcome.state_epoch, outcome.start_offset
        result.state_batches = [
            ReadShareGroupStateResponse.StateBatch(first, last, state, count)
            for first, last, count, state in outcome.batches
        ]
    return result


def _response(parts: Mapping[SharePartitionKey, Result]) -> Work[Message]:
    topics = yield from by_topic(parts)
    Topic = ReadShareGroupStateResponse.ReadStateResult
    return ReadShareGroupStateResponse([Topic(topic_id, results) for topic_id, results in topics.items()])
