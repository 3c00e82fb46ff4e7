"""InitProducerId: give a producer its id, by which its batches are stored once and in order.

0: idempotent and transactional producers. 1: throttle time. 2: flexible. 3: an id may be given, to raise its epoch. 4:
PRODUCER_FENCED. 5: transactions of KIP-890.

Transactions have no coordinator here yet; clients get a retriable error.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_FIRST_EPOCH = 0


@serves(ApiKey.INIT_PRODUCER_ID)
def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | DelayedOperation:
    """Handle InitProducerId; the response is delayed while ids are reserved."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE if request.transactional_id else ErrorCode.INVALID_REQUEST)
    operation = DelayedOperation()

    def given(found: int | OSError) -> None:
        if isinstance(found, OSError):
            operation.complete(_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            operation.complete(InitProducerIdResponse(producer_id=found, producer_epoch=_FIRST_EPOCH))

    # Without a transaction, an id is of no use any more once its owner asks again: Kafka gives a new one, too.
    call.core.producer_ids.take(given)
    return operation


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
