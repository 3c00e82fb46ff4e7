"""ListTransactions: list the transactional ids that this broker coordinates.

0: by state and producer id. 1: by age. 2: by a regular expression.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from kafkawire.reference_broker.patterns.pattern_characters import Characters
from kafkawire.reference_broker.patterns.topic_pattern import TopicPattern
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import Answer, DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.transaction import Transaction, state_name
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType, TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: The maximum numbers of distinct characters in ids that are matched together, and of characters matched in one slice.
_CHARACTERS_MAX = 1_000
_SLICE_CHARACTERS = 100_000

_STATES = {state_name(state): state for state in TransactionState}


@serves(ApiKey.LIST_TRANSACTIONS)
def handle(
    call: Call, request: ListTransactionsRequest, *, authorizer: Authorizer, transactions: TransactionCoordinator
) -> Answer:
    """Handle ListTransactions."""
    if transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    found = [
        ListTransactionsResponse.TransactionState(
            transaction.transactional_id, transaction.producer_id, state_name(transaction.state)
        )
        for transaction in transactions.transactions()
        if _is_wanted(request, transaction, states, call.now_ms)
        and authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)
    ]
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _STATES]
    response = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)
    return _matched(call, request.transactional_id_pattern, response) if request.transactional_id_pattern else response


def _matched(call: Call, text: str, response: ListTransactionsResponse) -> Answer:
    """Return a response with the transactions whose ids match; it is delayed if matching takes more than one slice."""
    delayed = DelayedOperation()

    def done(matching: frozenset[str] | ErrorCode, now_ms: int) -> None:
        if isinstance(matching, ErrorCode):
            delayed.complete(ListTransactionsResponse(error_code=matching))
            return
        found = [state for state in response.transaction_states if state.transactional_id in matching]
        delayed.complete(
            ListTransactionsResponse(unknown_state_filters=response.unknown_state_filters, transaction_states=found)
        )

    slices = _matching(text, [state.transactional_id for state in response.transaction_states])
    call.services.computations.begin(slices, lambda: not delayed.is_cancelled, done, call.now_ms)
    return delayed


def _matching(text: str, ids: list[str]) -> Generator[None, None, frozenset[str] | ErrorCode]:
    """Match ids in slices, and yield after each slice; return the matching ids, or why the expression was refused.

    Ids may contain any character, and an expression's character sets grow with the number of distinct characters.
    Therefore ids are matched together only as long as they have few distinct characters in total.
    """
    found: frozenset[str] = frozenset()
    together: list[str] = []
    characters: set[str] = set()
    looked_at = 0
    try:
        for each in ids:
            looked_at += len(each)
            if looked_at > _SLICE_CHARACTERS:
                yield
                looked_at = 0
            if together and len(characters) + len(set(each) - characters) > _CHARACTERS_MAX:
                found |= yield from TopicPattern(text, Characters(characters)).matching(together)
                yield
                together, characters = [], set()
            together.append(each)
            characters.update(each)
        return found | (yield from TopicPattern(text, Characters(characters)).matching(together))
    except BrokerError as error:
        return error.code


def _is_wanted(
    request: ListTransactionsRequest, transaction: Transaction, states: Collection[TransactionState], now_ms: int
) -> bool:
    return not (
        (request.producer_id_filters and transaction.producer_id not in request.producer_id_filters)
        or (request.state_filters and transaction.state not in states)
        or (request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter)
    )
