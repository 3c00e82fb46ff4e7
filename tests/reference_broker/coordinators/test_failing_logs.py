"""A partition whose log fails before, during or after loading is not served, and every request is answered.

Method: proceed as in `test_partition.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.partition import PartitionState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import record
from tests.reference_broker.coordinators.partition_bench import Bench, written


@pytest.mark.parametrize("batches", [[], [[record("a", 1)]]])
def test_log_that_has_failed_is_not_taken_for_an_empty_one(batches):
    log = written(*batches)
    log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO"))
    bench = Bench(log)
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR]
    assert bench.shard.calls == []


@pytest.mark.parametrize("slices", range(3))
def test_log_that_fails_while_it_is_loaded_is_not_served(slices):
    bench = Bench(written([record("a", 1)]))
    for _ in range(slices):
        bench.partition.load_slice(0)
    assert bench.partition.state is PartitionState.LOADING
    bench.log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO"))
    bench.partition.load_slice(0)
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR]
    assert bench.shard.calls == []


def test_partition_is_unloaded_when_its_log_fails_although_nobody_waits_for_it():
    bench = Bench()
    bench.add(1)
    bench.log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO"))
    bench.get()
    assert bench.replies == [1, ErrorCode.NOT_COORDINATOR]
    assert bench.shard.calls == ["loaded", "unloaded"]


def test_failed_log_unloads_the_partition(caplog):
    bench = Bench()
    bench.log.is_committed = False
    bench.add(1)
    bench.add(1)
    bench.log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO"))
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR] * 3
    assert caplog.text.count("its log failed") == 1
