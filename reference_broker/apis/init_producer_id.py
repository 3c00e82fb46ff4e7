"""InitProducerId: assign a producer its id and epoch, which make its batches idempotent and ordered.

0: idempotent and transactional producers. 1: throttle time. 2: flexible. 3: a producer may send its id to get a higher
epoch. 4: PRODUCER_FENCED. 5: KIP-890 transactions.

Version 6, which can prepare a transaction for an external coordinator (KIP-939), is not stable in Kafka 4.3.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import CLUSTER_NAME
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_FIRST_EPOCH = 0

#: PRODUCER_FENCED came with KIP-588, which added no field.
_FENCED_SINCE = 4


@serves(ApiKey.INIT_PRODUCER_ID)
def handle(
    call: Call,
    request: InitProducerIdRequest,
    *,
    authorizer: Authorizer,
    producer_ids: ProducerIds,
    transactions: TransactionCoordinator,
) -> InitProducerIdResponse | DelayedOperation:
    """Handle InitProducerId; the response is delayed while ids are reserved, or until the epoch is committed."""
    if request.transactional_id is None:
        if not _may_write(authorizer, call):
            return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif not authorizer.allows(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None and not request.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    operation = DelayedOperation()

    def initialized(outcome: ProducerIdAndEpoch | BrokerError) -> None:
        if not isinstance(outcome, BrokerError):
            operation.complete(InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch))
        elif outcome.code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
            operation.complete(_refused(ErrorCode.INVALID_PRODUCER_EPOCH))
        else:
            operation.complete(_refused(outcome.code))

    def given(found: int | BrokerError) -> None:
        initialized(found if isinstance(found, BrokerError) else ProducerIdAndEpoch(found, _FIRST_EPOCH))

    if request.transactional_id is None:
        # Without a transactional id, a producer that asks again has no use for its old id. Kafka also returns a new
        # one.
        producer_ids.take(given)
    else:
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        transactions.initialize(
            request.transactional_id, request.transaction_timeout_ms, expected, initialized, call.now_ms
        )
    return operation


def _may_write(authorizer: Authorizer, call: Call) -> bool:
    """Return whether an idempotent producer may write at all: any topic, or idempotently as before Kafka 2.8."""
    return authorizer.allows(
        call, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False
    ) or authorizer.allows_any(call, AclOperation.WRITE, ResourceType.TOPIC)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
