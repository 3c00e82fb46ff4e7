"""ListTransactions: the transactional ids that this broker coordinates.

0: by state and producer id. 1: by age. 2: by a regular expression.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from functools import partial

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.groups.consumer.topic_pattern import TopicPattern
from kafkawire.reference_broker.transactions.transaction import Transaction, state_name
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_STATES = {state_name(state): state for state in TransactionState}


@serves(ApiKey.LIST_TRANSACTIONS)
def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse | DelayedOperation:
    """Handle ListTransactions; ids are matched with an expression in slices, between other requests."""
    if call.core.transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if not request.transactional_id_pattern:
        return _response(request, _wanted(call, request))
    delayed = DelayedOperation()

    def respond(found: Iterable[Transaction] | Exception) -> ListTransactionsResponse:
        if isinstance(found, Exception):
            raise found
        return _response(request, found)

    call.core.slices.add(
        _matching(call, request),
        lambda: not delayed.is_cancelled,
        lambda found, now_ms: delayed.complete_by(partial(respond, found)),
        call.now_ms,
    )
    return delayed


def _matching(
    call: Call, request: ListTransactionsRequest
) -> Generator[None, None, Collection[Transaction] | Exception]:
    """Find the transactions whose ids match the expression; return the error if it is not valid."""
    try:
        wanted = _wanted(call, request)
        ids = [transaction.transactional_id for transaction in wanted]
        alphabet = frozenset().union(*ids)
        yield
        matching = yield from TopicPattern(request.transactional_id_pattern or "", alphabet).matching(ids)
    except Exception as error:
        return error
    return [transaction for transaction in wanted if transaction.transactional_id in matching]


def _wanted(call: Call, request: ListTransactionsRequest) -> Collection[Transaction]:
    """Return the transactions that all filters but the expression let pass."""
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    return [
        transaction
        for transaction in call.core.transactions.transactions()
        if _is_wanted(request, transaction, states, call.now_ms)
    ]


def _response(request: ListTransactionsRequest, transactions: Iterable[Transaction]) -> ListTransactionsResponse:
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
