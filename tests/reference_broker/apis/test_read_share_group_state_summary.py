"""ReadShareGroupStateSummary returns where share partitions start.

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


@pytest.mark.parametrize("version", [0, 1])
def test_a_summary(bench, version):
    bench.initialize(0, epoch=3, start=7)
    bench.read(0, leader_epoch=4)
    bench.write(0, [(8, 8, 2, 1)], epoch=3, leader_epoch=4, complete=1)
    ((topic_id, state),) = bench.summary(0, version=version)
    assert (topic_id, state.partition, state.error_code) == (bench.topic_id, 0, ErrorCode.NONE)
    assert (state.state_epoch, state.leader_epoch, state.start_offset) == (3, 4, 7)
    assert state.delivery_complete_count == (1 if version else -1)


def test_a_share_partition_without_a_state(bench):
    ((_, state),) = bench.summary(0)
    assert (state.error_code, state.start_offset, state.delivery_complete_count) == (ErrorCode.NONE, -1, -1)


def test_errors(bench):
    assert told(bench.summary(-1, 7)) == [
        (-1, ErrorCode.INVALID_REQUEST, NEGATIVE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
    ]
    assert told(bench.summary(0, topic_id=UNKNOWN_ID)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)]
