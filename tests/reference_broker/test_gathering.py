"""Parts are complete when all are there, in their order.

Method: parts put in by hand; requests of more groups than are looked at in one turn, to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.gathering import AT_A_TIME, Gathering
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

NAMES = [f"name{number}" for number in range(2 * AT_A_TIME + 1)]


def test_parts_come_in_any_order():
    found = []
    parts = Gathering[str](3, found.append)
    parts.put(2, "c")
    parts.put(0, "a")
    assert not found
    parts.put(1, "b")
    assert found == [["a", "b", "c"]]


def test_nothing_to_wait_for():
    found = []
    Gathering[str](0, found.append)
    assert found == [[]]


@pytest.mark.parametrize(
    "request_of_many",
    [
        ConsumerGroupDescribeRequest(NAMES),
        DeleteGroupsRequest(NAMES),
        DescribeGroupsRequest(NAMES),
        DescribeTransactionsRequest(NAMES),
        FindCoordinatorRequest(coordinator_keys=NAMES),
        OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(name) for name in NAMES]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_others_have_their_turns(bench, request_of_many):
    waiting = bench.ask(request_of_many)
    for _ in range(2):
        assert isinstance(waiting, DelayedOperation)
        assert waiting.response is None
        bench.advance(0)
    (parts,) = (value for value in vars_of(waiting.response) if isinstance(value, list))
    assert len(parts) == len(NAMES)


def vars_of(message):
    return [getattr(message, field.name) for field in message.FIELDS]


def test_client_that_has_gone_is_not_worked_for(bench, monkeypatch):
    waiting = bench.ask(DescribeGroupsRequest(NAMES))
    waiting.cancel()
    asked = []
    monkeypatch.setattr(bench.core.groups, "describe", lambda *arguments: asked.append(arguments))
    bench.advance(0)
    assert not asked
    assert bench.core.timers.next_deadline_ms != bench.now_ms, "nothing is left to be done"


@pytest.mark.defect
@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit("odd")])
def test_error_in_a_later_turn_is_answered(bench, monkeypatch, error):
    waiting = bench.ask(DescribeGroupsRequest(NAMES), 5)

    def fail(*arguments):
        raise error

    monkeypatch.setattr(bench.core.groups, "describe", fail)
    bench.advance(0)
    codes = [group.error_code for group in waiting.response.groups]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * len(NAMES)
