"""DescribeTransactions: return the state of transactional ids and their transactions.

0: the only version.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.transaction import Transaction, state_name
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

State = DescribeTransactionsResponse.TransactionState
TopicData = DescribeTransactionsResponse.TopicData


@serves(ApiKey.DESCRIBE_TRANSACTIONS)
def handle(
    call: Call, request: DescribeTransactionsRequest, *, authorizer: Authorizer, transactions: TransactionCoordinator
) -> Work[Message | DelayedOperation]:
    """Handle DescribeTransactions."""

    def may_describe(topic: str) -> bool:
        return authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def ask(transactional_id: str, put: Callable[[State], None]) -> None:
        def answer(outcome: Transaction | BrokerError | None) -> None:
            state = _state(transactional_id, outcome)
            if authorizer.acls is not None:
                # The client sees only the topics that it may describe.
                state.topics = [each for each in state.topics if may_describe(each.topic)]
            put(state)

        if not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            answer(BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        elif transactional_id:
            transactions.describe(transactional_id, answer, call.now_ms)
        else:
            answer(BrokerError(ErrorCode.INVALID_REQUEST))

    return (
        yield from collect_with_repetitions(
            call,
            request.transactional_ids,
            ask,
            lambda found: DescribeTransactionsResponse(transaction_states=found),
        )
    )


def _state(transactional_id: str, outcome: Transaction | BrokerError | None) -> State:
    if outcome is None:
        return State(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    if isinstance(outcome, BrokerError):
        return State(outcome.code, transactional_id)
    by_topic = groupby(sorted(outcome.partitions), lambda partition: partition[0])
    return State(
        transactional_id=transactional_id,
        transaction_state=state_name(outcome.state),
        transaction_timeout_ms=outcome.timeout_ms,
        transaction_start_time_ms=outcome.start_ms,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.epoch,
        topics=[TopicData(topic, [number for _, number in of_topic]) for topic, of_topic in by_topic],
    )
