"""ReadShareGroupStateSummary: read where share partitions start; sent by the group coordinator.

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
from kafkawire.reference_broker.shares.share_state import UNKNOWN_COUNT, SharePartitionKey, ShareState
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, AclOperation

__all__ = ["handle"]

Result = ReadShareGroupStateSummaryResponse.PartitionResult


@serves(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, scope=Scope.ALONE)
def handle(
    call: Call, request: ReadShareGroupStateSummaryRequest, *, authorizer: Authorizer, shares: Shares
) -> Work[Message | DelayedOperation]:
    """Handle ReadShareGroupStateSummary; a share partition without a state is no error.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION, names_operation=False)
    named = yield from named_shares(request.group_id, request.topics)

    def ask(share: SharePartitionKey, put: Callable[[Result], None]) -> None:
        shares.coordinator.summary(share, lambda outcome: put(_result(share, outcome)), call.now_ms)

    return (yield from collect(call, named, ask, _response))


def _result(share: SharePartitionKey, outcome: ShareState | BrokerError | None) -> Result:
    result = Result(share.partition, *told(outcome, "read share group state summary"))
    if isinstance(outcome, ShareState):
        result.state_epoch, result.leader_epoch = outcome.state_epoch, outcome.leader_epoch
        result.start_offset, result.delivery_complete_count = outcome.start_offset, outcome.delivery_complete_count
    elif outcome is None:
        result.start_offset, result.delivery_complete_count = UNKNOWN_OFFSET, UNKNOWN_COUNT
    return result


def _response(parts: Mapping[SharePartitionKey, Result]) -> Work[Message]:
    topics = yield from by_topic(parts)
    Topic = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult
    return ReadShareGroupStateSummaryResponse([Topic(topic_id, results) for topic_id, results in topics.items()])
