"""ListTransactions filters by state, producer id, age and expression, if the version supports the filter.

Method: send requests to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.apis import list_transactions
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import versions_of


@pytest.fixture
def filled(bench):
    x = Transacting(bench)
    for name in ("y", "Grüße 1"):
        assert bench.ask(InitProducerIdRequest(name, 1_000)).error_code == ErrorCode.NONE
    x.add(("a", 0))
    bench.now_ms += 5
    return bench


def listed(bench, version=2, **filters):
    response = bench.ask(ListTransactionsRequest(**filters), version)
    assert response.error_code == ErrorCode.NONE
    return {state.transactional_id for state in response.transaction_states}


def turns_until(bench, delayed):
    """Return the number of turns that other requests got before the answer arrived."""
    turns = 0
    while delayed.response is None:
        bench.advance(0)
        turns += 1
        assert turns < 1_000
    return turns


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_TRANSACTIONS))
def test_every_version(filled, version):
    response = filled.ask(ListTransactionsRequest(), version)
    states = {state.transactional_id: state.transaction_state for state in response.transaction_states}
    assert states == {"x": "Ongoing", "y": "Empty", "Grüße 1": "Empty"}


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"state_filters": ["Ongoing"]}, {"x"}),
        ({"state_filters": ["Ongoing", "Empty"]}, {"x", "y", "Grüße 1"}),
        ({"state_filters": ["Nothing"]}, set()),
        ({"producer_id_filters": [1]}, {"y"}),
        ({"duration_filter": 4, "state_filters": ["Ongoing"]}, {"x"}),
        ({"duration_filter": 5, "state_filters": ["Ongoing"]}, set()),
        ({"transactional_id_pattern": "[xy]"}, {"x", "y"}),
        ({"transactional_id_pattern": "Gr.*\\s\\d"}, {"Grüße 1"}),
        ({"transactional_id_pattern": "[^x]+"}, {"y", "Grüße 1"}),
        ({"transactional_id_pattern": ""}, {"x", "y", "Grüße 1"}),
    ],
)
def test_filters(filled, filters, found):
    assert listed(filled, **filters) == found


def test_what_is_refused(filled):
    response = filled.ask(ListTransactionsRequest(["Empty", "Nothing", "Nothing"]))
    assert response.unknown_state_filters == ("Nothing",)
    refused = filled.ask(ListTransactionsRequest(transactional_id_pattern="("))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_expressions_that_take_long_are_answered_later(filled):
    """Requests are served between slices of the work."""
    name = "ab" * 100
    assert filled.ask(InitProducerIdRequest(name, 1_000)).error_code == ErrorCode.NONE
    asked = ListTransactionsRequest(transactional_id_pattern="(?:a?b?c?d?){299}")
    cancelled, delayed = filled.ask(asked), filled.ask(asked)
    cancelled.cancel()
    assert turns_until(filled, delayed) > 10
    assert [state.transactional_id for state in delayed.response.transaction_states] == [name]
    assert cancelled.response is None


def test_ids_of_many_characters(filled):
    """If all ids were matched together, their character sets would take up memory quadratic in the number of ids."""
    ids = [name + "".join(map(chr, range(first, first + 3_000))) for name, first in (("p-", 0x4E00), ("q-", 0xAC00))]
    for each in ids:
        assert filled.ask(InitProducerIdRequest(each, 1_000)).error_code == ErrorCode.NONE
    delayed = filled.ask(ListTransactionsRequest(transactional_id_pattern="(?i)[P-Q]-.*|G.*"))
    assert turns_until(filled, delayed), "other requests are served between ids with few common characters"
    assert {state.transactional_id for state in delayed.response.transaction_states} == {*ids, "Grüße 1"}
    refused = filled.ask(ListTransactionsRequest(transactional_id_pattern=r"\p{Han}"))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION, "non-ASCII characters"


def test_others_are_served_between_ids_that_are_many(monkeypatch):
    monkeypatch.setattr(list_transactions, "_SLICE_CHARACTERS", 7)
    assert list(list_transactions._matching("a*", ["aaaa"] * 5)) == [None] * 2, (
        "other requests are served after every second id"
    )


def test_ids_without_common_characters_are_matched_in_turns(filled):
    ids = ["".join(map(chr, range(first, first + 600))) for first in range(0x4E00, 0x5E00, 0x400)]
    for each in ids:
        assert filled.ask(InitProducerIdRequest(each, 1_000)).error_code == ErrorCode.NONE
    delayed = filled.ask(ListTransactionsRequest(transactional_id_pattern="[^G].*"))
    assert turns_until(filled, delayed) == len(ids) - 1, "the first ids are matched immediately"
    assert {state.transactional_id for state in delayed.response.transaction_states} == {*ids, "x", "y"}


def test_while_loading(filled):
    filled.core.transactions.unload()
    filled.elect()
    request = Request(APIS[ApiKey.LIST_TRANSACTIONS], 2, 0, "c", ListTransactionsRequest(), 10)
    answer = filled.core.requests.handle(filled.call(request), ListTransactionsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
