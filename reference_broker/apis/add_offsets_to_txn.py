"""AddOffsetsToTxn: add a group's offsets to a transaction, before TxnOffsetCommit.

0: the lowest version. 1: throttle time. 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC, AclOperation, ResourceType, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: PRODUCER_FENCED came with KIP-588, which added no field.
_FENCED_SINCE = 2


@serves(ApiKey.ADD_OFFSETS_TO_TXN)
def handle(
    call: Call,
    request: AddOffsetsToTxnRequest,
    *,
    authorizer: Authorizer,
    groups: GroupCoordinator,
    topics: TopicController,
    transactions: TransactionCoordinator,
) -> AddOffsetsToTxnResponse | DelayedOperation:
    """Handle AddOffsetsToTxn; the response is delayed while the offsets topic is being created."""
    if not authorizer.allows(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    delayed = DelayedOperation()

    def added(error: BrokerError | None) -> None:
        code = ErrorCode.NONE if error is None else error.code
        if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        delayed.complete(AddOffsetsToTxnResponse(error_code=code))

    def created(topic: TopicImage | BrokerError) -> None:
        if isinstance(topic, BrokerError):
            added(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, topic.detail))
            return
        # Clients that use transaction.version 2 leave this to TxnOffsetCommit.
        transactions.add_partitions(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            [(CONSUMER_OFFSETS_TOPIC, groups.partition_for(request.group_id))],
            TransactionVersion.TV_0,
            added,
            call.now_ms,
        )

    topics.ensure(CONSUMER_OFFSETS_TOPIC, created)
    return delayed
