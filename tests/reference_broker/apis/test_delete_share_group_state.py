"""DeleteShareGroupState deletes the states of share partitions.

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


def test_a_state_is_deleted(bench):
    bench.initialize(0, 1)
    assert told(bench.delete(0)) == [(0, 0, None)]
    assert told(bench.delete(0)) == [(0, 0, None)], "nothing is left to delete"
    assert told(bench.write(0))[0][1] == ErrorCode.INVALID_REQUEST
    assert told(bench.write(1))[0][1] == ErrorCode.NONE


def test_errors(bench):
    assert told(bench.delete(-1, 7)) == [
        (-1, ErrorCode.INVALID_REQUEST, NEGATIVE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
    ]
    assert told(bench.delete(0, topic_id=UNKNOWN_ID)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)]
    assert bench.delete(0, group_id="") == []
