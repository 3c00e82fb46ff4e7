"""ShareAcknowledge: acknowledgements without a fetch, and their errors.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_bench import LOCK_MS, ShareBench, acquired
from tests.reference_broker.broker_bench import versions_of

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    bench.produce_values(b"a", b"b", b"c")
    return bench


def told(response):
    return [
        (part.partition_index, part.error_code, part.error_message)
        for topic in response.responses
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", versions_of(ApiKey.SHARE_ACKNOWLEDGE))
def test_every_version(bench, version):
    bench.fetch()
    Batch = ShareAcknowledgeRequest.AcknowledgementBatch
    part = ShareAcknowledgeRequest.AcknowledgePartition(0, [Batch(0, 2, [ACCEPT, RELEASE, REJECT])])
    topic = ShareAcknowledgeRequest.AcknowledgeTopic(bench.topic_id, [part])
    answer = bench.ask(ShareAcknowledgeRequest("g", "m", 1, topics=[topic]), version)
    assert (answer.error_code, told(answer)) == (ErrorCode.NONE, [(0, 0, None)])
    if version > 1:
        assert answer.acquisition_lock_timeout_ms == LOCK_MS
    assert acquired(bench.fetch(2)) == [(1, 1, 2)]


@pytest.mark.parametrize(
    ("ranges", "code", "text"),
    [
        ([(0, 2, [ACCEPT])], ErrorCode.NONE, None),
        ([(2, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST, None),
        ([(0, 2, [RENEW])], ErrorCode.INVALID_REQUEST, None),
        (
            [(0, 5, [ACCEPT])],
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The last offset in request is past acquired records.",
        ),
        (
            [(1, 1, [ACCEPT]), (1, 1, [ACCEPT])],
            ErrorCode.INVALID_RECORD_STATE,
            "The offset cannot be acknowledged. The offset is not acquired.",
        ),
    ],
)
def test_acknowledgements_are_checked(bench, ranges, code, text):
    bench.fetch()
    assert told(bench.acknowledge(1, *ranges)) == [(0, code, text)]


def test_nothing_is_acknowledged(bench):
    bench.fetch()
    answer = bench.acknowledge(1)
    assert (answer.error_code, told(answer)) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
def test_epochs(bench, epoch, code):
    assert bench.acknowledge(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    bench.fetch()
    assert bench.acknowledge(epoch, (0, 0, [ACCEPT])).error_code == code


@pytest.mark.parametrize(
    "fields", [{"group_id": None}, {"member_id": ""}, {"member_id": None}, {"member_id": "m" * 37}]
)
def test_invalid_names(bench, fields):
    request = ShareAcknowledgeRequest(**{"group_id": "g", "member_id": "m", **fields})
    assert bench.ask(request).error_code == ErrorCode.INVALID_REQUEST


def test_unknown_partitions(bench):
    bench.fetch()
    text = "This server does not host this topic-partition."
    ranges = (0, 0, [ACCEPT])
    assert told(bench.acknowledge(1, ranges, partition=1)) == [(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)]
    assert told(bench.acknowledge(2, ranges, partition=7)) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]
    Batch = ShareAcknowledgeRequest.AcknowledgementBatch
    part = ShareAcknowledgeRequest.AcknowledgePartition(0, [Batch(0, 2, [ACCEPT])])
    unknown = ShareAcknowledgeRequest.AcknowledgeTopic(b"u" * 16, [part])
    answer = bench.ask(ShareAcknowledgeRequest("g", "m", 3, topics=[unknown]))
    assert told(answer) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, None)]


def test_locks_are_renewed(bench):
    bench.fetch()
    bench.advance(LOCK_MS - 1)
    assert told(bench.acknowledge(1, (0, 0, [RENEW]), is_renew_ack=True)) == [(0, 0, None)]
    bench.advance(1)
    assert acquired(bench.fetch(2)) == [(1, 2, 2)]


def test_the_last_request_releases_what_is_left(bench):
    bench.fetch()
    assert told(bench.acknowledge(-1, (0, 0, [ACCEPT]))) == [(0, 0, None)]
    assert bench.acknowledge(2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert acquired(bench.fetch()) == [(1, 2, 2)]
