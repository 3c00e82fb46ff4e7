"""DescribeTransactions shows the state of each transactional id in the request.

Method: send requests to a broker without sockets.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import NOW_MS


def test_a_transaction(bench):
    x = Transacting(bench)
    assert (x.describe().transaction_state, x.describe().transaction_start_time_ms) == ("Empty", -1)
    x.add(("b", 1), ("a", 0), ("a", 1))
    state = x.describe()
    assert (state.error_code, state.transactional_id, state.transaction_state) == (ErrorCode.NONE, "x", "Ongoing")
    assert (state.producer_id, state.producer_epoch) == x.producer
    assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (60_000, NOW_MS)
    assert [(topic.topic, list(topic.partitions)) for topic in state.topics] == [("a", [0, 1]), ("b", [1])]


def test_what_is_not_there(bench):
    asked = DescribeTransactionsRequest(["y", ""])
    codes = [state.error_code for state in bench.ask(asked).transaction_states]
    assert codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_REQUEST]
    Transacting(bench)
    assert bench.ask(asked).transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.ask(DescribeTransactionsRequest([])).transaction_states == ()
