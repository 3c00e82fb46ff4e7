"""WriteShareGroupState stores changes of the leaders of partitions.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_states import StateBench, told

NEGATIVE = "The partition id cannot be a negative number."


@pytest.fixture
def bench(tmp_path):
    bench = StateBench(tmp_path)
    bench.begin_states()
    return bench


@pytest.mark.parametrize("version", [0, 1])
def test_a_state_is_written(bench, version):
    bench.initialize(0)
    assert told(bench.write(0, [(0, 4, 2, 1)], complete=5, version=version)) == [(0, 0, None)]
    ((_, state),) = bench.summary(0)
    assert (state.start_offset, state.delivery_complete_count) == (0, 5 if version else -1)
    assert told(bench.write(0, start=5, leader_epoch=3, version=version)) == [(0, 0, None)]
    ((_, state),) = bench.summary(0)
    assert state.start_offset == 5
    assert list(bench.read(0, leader_epoch=3)[0][1].state_batches) == []


def test_errors(bench):
    uninitialized = "Write operation on uninitialized share partition not allowed."
    assert told(bench.write(0)) == [(0, ErrorCode.INVALID_REQUEST, uninitialized)]
    assert told(bench.write(-1)) == [(-1, ErrorCode.INVALID_REQUEST, NEGATIVE)]
    bench.initialize(0, epoch=3)
    assert told(bench.write(0, epoch=2))[0][1] == ErrorCode.FENCED_STATE_EPOCH
    assert told(bench.write(0, epoch=-1))[0][1] == ErrorCode.NONE
