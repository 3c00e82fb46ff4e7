"""WriteShareGroupState: store changes to the delivery state of share partitions; sent by the partitions' leaders.

0: the first version. 1: the number of records whose delivery is complete (KIP-1226).
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
from kafkawire.reference_broker.shares.shard import Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]

Result = WriteShareGroupStateResponse.PartitionResult


@serves(ApiKey.WRITE_SHARE_GROUP_STATE, scope=Scope.ALONE)
def handle(
    call: Call, request: WriteShareGroupStateRequest, *, authorizer: Authorizer, shares: Shares
) -> Work[Message | DelayedOperation]:
    """Handle WriteShareGroupState.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION, names_operation=False)
    named = yield from named_shares(request.group_id, request.topics)

    def ask(share: SharePartitionKey, put: Callable[[Result], None]) -> None:
        def ended(outcome: BrokerError | None) -> None:
            put(Result(share.partition, *told(outcome, "write share group state")))

        shares.coordinator.write(share, _write(named[share]), ended, call.now_ms)

    return (yield from collect(call, named, ask, _response))


def _write(wanted: WriteShareGroupStateRequest.PartitionData) -> Write:
    batches = tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
        for batch in wanted.state_batches
    )
    return Write(wanted.state_epoch, wanted.leader_epoch, wanted.start_offset, wanted.delivery_complete_count, batches)


def _response(parts: Mapping[SharePartitionKey, Result]) -> Work[Message]:
    topics = yield from by_topic(parts)
    Topic = WriteShareGroupStateResponse.WriteStateResult
    return WriteShareGroupStateResponse([Topic(topic_id, results) for topic_id, results in topics.items()])
