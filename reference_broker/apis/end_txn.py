"""EndTxn: commit or abort the open transaction of a producer.

0: the lowest version. 1: throttle time. 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE. 5: each end
    increases the epoch, and the response carries the producer id and epoch for the next transaction (KIP-890).
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import END_TXN_LAST_BEFORE_TV_2, AclOperation, ResourceType, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: PRODUCER_FENCED came with KIP-588, which added no field.
_FENCED_SINCE = 2


@serves(ApiKey.END_TXN)
def handle(
    call: Call, request: EndTxnRequest, *, authorizer: Authorizer, transactions: TransactionCoordinator
) -> EndTxnResponse | DelayedOperation:
    """Handle EndTxn; the markers are written after the response."""
    if not authorizer.allows(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    delayed = DelayedOperation()

    def ended(outcome: ProducerIdAndEpoch | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            code = outcome.code
            if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            delayed.complete(EndTxnResponse(error_code=code))
        else:
            delayed.complete(EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch))

    is_tv_2 = call.version > END_TXN_LAST_BEFORE_TV_2
    transactions.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        request.committed,
        TransactionVersion.TV_2 if is_tv_2 else TransactionVersion.TV_0,
        ended,
        call.now_ms,
    )
    return delayed
