"""ListTransactions filters by state, producer id, age and expression, as far as the version knows them.

Method: a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.apis import list_transactions
from kafkawire.reference_broker.apis.registry import Call
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


def asked(bench, version=2, **filters):
    """Return the response; ids are matched as time passes."""
    answers = []
    bench.ask_then(ListTransactionsRequest(**filters), version, answers.append)
    while not answers:
        bench.advance(0)
    (response,) = answers
    return response


def listed(bench, version=2, **filters):
    response = asked(bench, version, **filters)
    assert response.error_code == ErrorCode.NONE
    return {state.transactional_id for state in response.transaction_states}


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
    refused = asked(filled, transactional_id_pattern="(")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_ids_are_matched_between_other_requests(filled):
    for number in range(8):
        filled.ask(InitProducerIdRequest("a" * 1_000 + str(number), 1_000))
    answers, slices = [], 0
    filled.ask_then(ListTransactionsRequest(transactional_id_pattern="(a?){100}.*7"), 2, answers.append)
    while not answers:
        filled.advance(0)
        slices += 1
    assert slices > 5
    assert {state.transactional_id[-2:] for state in answers[0].transaction_states} == {"a7"}


def test_nothing_is_matched_for_a_client_that_has_gone(filled, monkeypatch):
    monkeypatch.delattr(list_transactions, "TopicPattern")
    delayed = filled.ask(ListTransactionsRequest(transactional_id_pattern="x"))
    delayed.cancel()
    filled.advance(0)
    assert delayed.response is None


def test_a_defect_is_answered(filled, monkeypatch, caplog):
    monkeypatch.delattr(list_transactions, "TopicPattern")
    assert asked(filled, transactional_id_pattern="x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "LIST_TRANSACTIONS" in caplog.text or "ListTransactions" in caplog.text


def test_while_loading(filled):
    filled.core.transactions.unload()
    filled.core.transactions.load(filled.now_ms)
    request = Request(APIS[ApiKey.LIST_TRANSACTIONS], 2, 0, "c", ListTransactionsRequest(), 10)
    call = Call(filled.core, request, filled.peer, filled.now_ms)
    assert filled.core.handle(call, ListTransactionsRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
