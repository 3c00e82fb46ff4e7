"""ReadShareGroupState returns states to the leaders of partitions, and fences earlier leaders.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_states import UNKNOWN_ID, StateBench, told

NEGATIVE = "The partition id cannot be a negative number."


@pytest.fixture
def bench(tmp_path):
    bench = StateBench(tmp_path)
    bench.begin_states()
    return bench


def test_a_state_is_read(bench):
    bench.initialize(0, epoch=3, start=7)
    bench.write(0, [(7, 9, 2, 1), (12, 12, 0, 2)], epoch=3)
    ((topic_id, state),) = bench.read(0)
    assert (topic_id, state.partition, state.error_code) == (bench.topic_id, 0, ErrorCode.NONE)
    assert (state.state_epoch, state.start_offset) == (3, 7)
    assert [
        (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in state.state_batches
    ] == [(7, 9, 2, 1), (12, 12, 0, 2)]


def test_a_later_leader_fences_an_earlier_one(bench):
    bench.initialize(0)
    assert told(bench.read(0, leader_epoch=5)) == [(0, 0, None)]
    ((_, code, text),) = told(bench.read(0, leader_epoch=4))
    assert code == ErrorCode.FENCED_LEADER_EPOCH
    assert text == "The leader epoch in the request is older than the epoch on the broker."
    assert told(bench.write(0, leader_epoch=4))[0][1] == ErrorCode.FENCED_LEADER_EPOCH


def test_errors(bench):
    uninitialized = "Read operation on uninitialized share partition not allowed."
    assert told(bench.read(0, -1)) == [
        (0, ErrorCode.INVALID_REQUEST, uninitialized),
        (-1, ErrorCode.INVALID_REQUEST, NEGATIVE),
    ]
    assert told(bench.read(0, topic_id=UNKNOWN_ID)) == [(0, ErrorCode.INVALID_REQUEST, uninitialized)]
    assert bench.read(0, group_id="") == []
