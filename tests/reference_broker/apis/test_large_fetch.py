"""A fetch of many partitions is handled in steps, and no change between two steps is lost.

Method: send requests to a broker without sockets, which handles them one step at a time.
"""

from typing import Any

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import all_steps
from tests.reference_broker.storage.produced_batches import produced

#: Enough partitions to be read in several turns.
MANY = 2_000


def of_many(first: int = 0, **fields: Any) -> FetchRequest:
    """Return a fetch request for partition 0 of `t` and many partitions that do not exist."""
    partitions = [FetchRequest.FetchPartition(number, partition_max_bytes=1000) for number in range(first, MANY)]
    return FetchRequest(topics=[FetchRequest.FetchTopic("t", partitions=partitions)], **fields)


def begun(bench, request: FetchRequest) -> DelayedOperation:
    """Return the answer to a request after its first step."""
    answer = bench.begin(request, 12)
    assert answer.response is None
    return answer


def response_of(answer: DelayedOperation) -> FetchResponse:
    assert isinstance(answer.response, FetchResponse)
    return answer.response


def test_many_partitions_are_read_in_turns(bench):
    bench.create()
    bench.produce(produced(b"x"))
    answer = begun(bench, of_many(session_epoch=-1, max_wait_ms=0))
    all_steps(answer)
    partitions = [part for topic in response_of(answer).responses for part in topic.partitions]
    assert [part.partition_index for part in partitions] == list(range(MANY))
    assert {part.error_code for part in partitions[1:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert partitions[0].records


@pytest.mark.parametrize("min_bytes", [1, 10_000])
def test_records_that_come_between_two_turns_are_known(bench, min_bytes):
    bench.create()
    answer = begun(bench, of_many(session_epoch=0, max_wait_ms=500, min_bytes=min_bytes))
    for _ in range(3):
        answer.step()
    bench.produce(produced(b"x"))
    all_steps(answer)
    if min_bytes > 1:
        assert answer.response is None
        bench.advance(500)
        for _ in range(MANY):
            bench.advance(0)
    first = response_of(answer).responses[0].partitions[0]
    assert (first.partition_index, bool(first.records)) == (0, True)


def test_logs_are_left_alone_when_a_client_goes_between_two_turns(bench):
    bench.create()
    for wait in (0, 500):
        answer = begun(bench, of_many(max_wait_ms=wait))
        for _ in range(4):
            answer.step()
        answer.cancel()
        assert answer.steps is None
    assert not bench.core.fetch_sessions
    bench.produce(produced(b"x"))


def test_session_of_a_client_that_goes_while_it_is_brought_up_to_date_is_known_no_more(bench):
    bench.create()
    session = bench.ask(fetch_of_one(session_epoch=0), 12).session_id
    request = of_many(first=1, session_id=session, session_epoch=1)
    request.topics = [*request.topics] * 10  # too many for the first step
    begun(bench, request).cancel()
    assert not bench.core.fetch_sessions
    refused = bench.ask(fetch_of_one(session_id=session, session_epoch=2), 12)
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [0, 2])
def test_session_that_is_used_by_another_between_two_turns(bench, epoch):
    bench.create()
    session = bench.ask(fetch_of_one(session_epoch=0), 12).session_id
    answer = begun(bench, of_many(first=1, session_id=session, session_epoch=1, max_wait_ms=500))
    other = bench.ask(fetch_of_one(session_id=session, session_epoch=epoch), 12)
    all_steps(answer)
    if epoch:
        assert other.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        bench.advance(500)
        for _ in range(MANY):
            bench.advance(0)
        assert response_of(answer).session_id == session
    else:
        assert not other.error_code
        assert response_of(answer).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def fetch_of_one(**fields: Any) -> FetchRequest:
    partition = FetchRequest.FetchPartition(0, partition_max_bytes=1000)
    return FetchRequest(topics=[FetchRequest.FetchTopic("t", partitions=[partition])], max_wait_ms=0, **fields)


def test_records_that_come_at_any_time_are_sent(bench):
    """New records in a partition that was just read are sent with the next response."""
    count = 510  # the last ten are not watched before the response is built
    bench.create(partitions=count)
    wanted = [FetchRequest.FetchPartition(number, partition_max_bytes=1000) for number in range(count)]
    whole = FetchRequest(topics=[FetchRequest.FetchTopic("t", partitions=wanted)], session_epoch=0, max_wait_ms=0)
    last, steps = count - 1, 0
    while True:
        answer = begun(bench, whole)
        for _ in range(steps):
            answer.step()
        if answer.response is not None:
            break
        offset = bench.produce(produced(b"x"), partition=last).base_offset
        all_steps(answer)
        response = response_of(answer)
        sent = {part.partition_index: part.records for part in response.responses[0].partitions}
        if not sent[last]:
            news = bench.ask(FetchRequest(session_id=response.session_id, session_epoch=1, max_wait_ms=0), 12)
            assert [part.partition_index for part in news.responses[0].partitions] == [last], (
                f"the test failed after {steps} steps"
            )
        wanted[last].fetch_offset = offset + 1
        steps += 1
    assert steps > 3
