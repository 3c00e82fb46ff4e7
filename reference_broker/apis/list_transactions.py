"""ListTransactions: the transactional ids that this broker coordinates.

0: by state and producer id. 1: by age. 2: by a regular expression.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.groups.consumer.pattern_characters import Characters
from kafkawire.reference_broker.groups.consumer.topic_pattern import TopicPattern
from kafkawire.reference_broker.transactions.transaction import Transaction, state_name
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_STATES = {state_name(state): state for state in TransactionState}


@serves(ApiKey.LIST_TRANSACTIONS)
def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Handle ListTransactions."""
    if call.core.transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    transactions = [
        transaction
        for transaction in call.core.transactions.transactions()
        if _is_wanted(request, transaction, states, call.now_ms)
    ]
    if request.transactional_id_pattern:
        used = frozenset().union(*(transaction.transactional_id for transaction in transactions))
        try:
            pattern = TopicPattern(request.transactional_id_pattern, Characters(used))
        except BrokerError as error:
            return ListTransactionsResponse(error_code=error.code)
        transactions = [transaction for transaction in transactions if pattern.matches(transaction.transactional_id)]
    found = [
        ListTransactionsResponse.TransactionState(
            transaction.transactional_id, transaction.producer_id, state_name(transaction.state)
        )
        for transaction in transactions
    ]
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _is_wanted(
    request: ListTransactionsRequest, transaction: Transaction, states: Collection[TransactionState], now_ms: int
) -> bool:
    return not (
        (request.producer_id_filters and transaction.producer_id not in request.producer_id_filters)
        or (request.state_filters and transaction.state not in states)
        or (request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter)
    )
