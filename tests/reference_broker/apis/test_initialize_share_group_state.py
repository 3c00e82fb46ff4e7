"""InitializeShareGroupState begins the states of share partitions.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_states import UNKNOWN_ID, StateBench, told

NEGATIVE = "The partition id cannot be a negative number."
UNKNOWN = "This server does not host this topic-partition."


@pytest.fixture
def bench(tmp_path):
    bench = StateBench(tmp_path)
    bench.begin_states()
    return bench


def test_states_are_begun(bench):
    results = bench.initialize(0, 1, epoch=3, start=7)
    assert told(results) == [(0, 0, None), (1, 0, None)]
    assert {topic_id for topic_id, _ in results} == {bench.topic_id}
    ((_, state),) = bench.summary(0)
    assert (state.state_epoch, state.start_offset, state.delivery_complete_count) == (3, 7, 0)


def test_errors(bench):
    assert told(bench.initialize(-1, 7)) == [
        (-1, ErrorCode.INVALID_REQUEST, NEGATIVE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
    ]
    assert told(bench.initialize(0, topic_id=UNKNOWN_ID)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)]
    bench.initialize(0, epoch=3)
    ((number, code, text),) = told(bench.initialize(0, epoch=2))
    assert (number, code) == (0, ErrorCode.FENCED_STATE_EPOCH)
    assert text == "The share coordinator rejected the request because the share-group state epoch did not match."


def test_requests_without_a_group_or_without_partitions_are_not_answered(bench):
    assert bench.initialize(0, group_id="") == []
    assert bench.initialize() == []


def test_without_a_coordinator(tmp_path):
    bench = StateBench(tmp_path)
    bench.create()
    ((number, code, text),) = told(bench.initialize(0))
    assert (number, code) == (0, ErrorCode.NOT_COORDINATOR)
    assert text is not None
    assert text.startswith("Unable to initialize share group state")
