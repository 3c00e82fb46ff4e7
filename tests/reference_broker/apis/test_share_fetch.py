"""ShareFetch: sessions, acquired records, acknowledgements in the same request, and errors.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_bench import LOCK_MS, ShareBench, acquired, values_of
from tests.reference_broker.broker_bench import versions_of

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

NOTHING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    return bench


def told(response):
    """Return the number, error and acknowledge error of each partition in a response."""
    return [
        (part.partition_index, part.error_code, part.acknowledge_error_code)
        for topic in response.responses
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", versions_of(ApiKey.SHARE_FETCH))
def test_every_version(bench, version):
    bench.produce_values(b"a", b"b")
    answer = bench.fetch(version=version)
    assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (ErrorCode.NONE, LOCK_MS)
    assert (acquired(answer), values_of(answer)) == ([(0, 1, 1)], [b"a", b"b"])
    (topic,) = answer.responses
    assert (topic.topic_id, topic.partitions[0].error_message) == (bench.topic_id, None)


def test_a_session(bench):
    bench.produce_values(b"a")
    assert told(bench.fetch(partitions=[0, 1])) == [(0, 0, 0), (1, 0, 0)]
    assert told(bench.fetch(1, max_wait_ms=0)) == [], "nothing is new"
    bench.produce_values(b"b", partition=1)
    assert told(bench.fetch(2)) == [(1, 0, 0)]
    bench.produce_values(b"c", partition=1)
    assert told(bench.fetch(3, forgotten=[1], max_wait_ms=0)) == []
    assert values_of(bench.fetch(4, partitions=[1])) == [b"c"]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (1, ErrorCode.NONE),
        (2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (-2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (0, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_epochs(bench, epoch, code):
    assert bench.fetch(epoch or 1, max_wait_ms=0).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    bench.fetch(max_wait_ms=0)
    answer = bench.fetch(epoch, max_wait_ms=0)
    assert (answer.error_code, answer.error_message) == (code, None)


@pytest.mark.parametrize(
    "fields",
    [{"group_id": None}, {"member_id": ""}, {"member_id": None}, {"member_id": "m" * 37}],
)
def test_invalid_names(bench, fields):
    request = ShareFetchRequest(**{"group_id": "g", "member_id": "m", **fields})
    answer = bench.ask(request)
    assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (ErrorCode.INVALID_REQUEST, 0)


def test_unknown_partitions(bench):
    unknown = b"u" * 16
    answer = bench.fetch(partitions=[0], topic_id=unknown)
    assert told(answer) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert told(bench.fetch(partitions=[7])) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    assert told(bench.fetch(1)) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]


def test_the_topic_of_a_session_is_deleted(bench):
    bench.fetch(max_wait_ms=0)
    topic_id = bench.topic_id
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1_000))
    assert told(bench.fetch(1, topic_id=topic_id)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]


def test_records_are_acknowledged_and_fetched(bench):
    bench.produce_values(b"a", b"b")
    bench.fetch()
    bench.produce_values(b"c")
    answer = bench.fetch(1, acknowledged={0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
    assert told(answer) == [(0, 0, 0)]
    assert acquired(answer) == [(1, 1, 2), (2, 2, 1)]


@pytest.mark.parametrize(
    ("acknowledged", "code"),
    [
        ([(1, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [ACCEPT] * 2)], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [RENEW])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [5])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [-1])], ErrorCode.INVALID_REQUEST),
        ([(1, 1, [ACCEPT]), (0, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [ACCEPT]), (0, 0, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
        ([(9, 9, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [0, 2, 3])], ErrorCode.NONE),
    ],
)
def test_acknowledgements_are_checked(bench, acknowledged, code):
    bench.produce_values(b"a", b"b", b"c")
    bench.fetch()
    answer = bench.fetch(1, acknowledged={0: acknowledged}, max_wait_ms=0)
    assert told(answer) == [(0, 0, code)]


def test_acknowledgements_of_unknown_partitions(bench):
    bench.fetch(max_wait_ms=0)
    ranges = [(0, 0, [ACCEPT])]
    answer = bench.fetch(1, acknowledged={7: ranges}, max_wait_ms=0)
    assert told(answer) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    answer = bench.fetch(2, acknowledged={1: ranges}, max_wait_ms=0)
    (other,) = [part for part in answer.responses[0].partitions if part.partition_index == 1]
    assert other.acknowledge_error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert other.acknowledge_error_message == "This server does not host this topic-partition."


def test_a_new_session_acknowledges_nothing(bench):
    assert bench.fetch(acknowledged={0: [(0, 0, [ACCEPT])]}).error_code == ErrorCode.INVALID_REQUEST


def test_the_last_request_releases_what_is_left(bench):
    bench.produce_values(b"a", b"b")
    bench.fetch()
    answer = bench.fetch(-1, acknowledged={0: [(0, 0, [ACCEPT])]})
    assert (told(answer), acquired(answer)) == ([(0, 0, 0)], [])
    assert acquired(bench.fetch()) == [(1, 1, 2)]


def test_a_new_session_keeps_what_was_acquired(bench):
    bench.produce_values(b"a")
    bench.fetch()
    assert acquired(bench.fetch(max_wait_ms=0)) == []
    assert told(bench.fetch(1, acknowledged={0: [(0, 0, [ACCEPT])]}, max_wait_ms=0)) == [(0, 0, 0)]


# KIP-1222.


def test_locks_are_renewed(bench):
    bench.produce_values(b"a", b"b")
    bench.fetch()
    bench.advance(LOCK_MS - 1)
    bench.produce_values(b"c")
    answer = bench.fetch(1, acknowledged={0: [(0, 0, [RENEW])]}, is_renew_ack=True, **NOTHING)
    assert (told(answer), acquired(answer)) == ([(0, 0, 0)], [])
    bench.advance(1)
    assert acquired(bench.fetch(2)) == [(1, 1, 2), (2, 2, 1)]


@pytest.mark.parametrize("name", NOTHING)
def test_a_request_that_renews_locks_fetches_nothing(bench, name):
    bench.fetch(max_wait_ms=0)
    assert bench.fetch(1, is_renew_ack=True, **{**NOTHING, name: 1}).error_code == ErrorCode.INVALID_REQUEST


# KIP-1206.


@pytest.mark.parametrize(("mode", "ranges"), [(0, [(0, 2, 1)]), (1, [(0, 1, 1)])])
def test_acquire_modes(bench, mode, ranges):
    bench.produce_values(b"a", b"b", b"c")
    assert acquired(bench.fetch(max_records=2, share_acquire_mode=mode)) == ranges


def test_an_unknown_acquire_mode(bench):
    assert bench.fetch(share_acquire_mode=2).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# Waiting.


def test_a_later_request_ends_an_earlier_one(bench):
    first = bench.fetch_later(max_wait_ms=1_000)
    bench.pass_turns()
    second = bench.fetch_later(1, max_wait_ms=2_000)
    bench.advance(1_000)
    answer = bench.through(first.response, 2)
    assert (answer.error_code, told(answer)) == (ErrorCode.INVALID_SHARE_SESSION_EPOCH, [])
    assert second.response is None


def test_too_many_sessions(tmp_path):
    bench = ShareBench(tmp_path, group_share_max_share_sessions=1)
    bench.begin_group(1, "m", "n")
    bench.fetch(max_wait_ms=0)
    bench.use_connection()
    answer = bench.fetch_later(0, "n", max_wait_ms=300)
    assert isinstance(answer, DelayedOperation)
    responses = []
    answer.then(responses.append)
    bench.advance(299)
    assert responses == []
    bench.advance(1)
    (response,) = responses
    assert bench.through(response, 2).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert bench.fetch(0, "n", max_wait_ms=0).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    other = bench.fetch_later(0, "n", max_wait_ms=300)
    other.cancel()
    bench.advance(300)
    assert other.response is None


def test_a_client_that_leaves_gets_no_records(bench):
    answer = bench.fetch_later(max_wait_ms=1_000)
    answer.cancel()
    bench.peer.lost()
    bench.produce_values(b"a")
    bench.pass_turns()
    bench.use_connection()
    assert acquired(bench.fetch()) == [(0, 0, 1)]
