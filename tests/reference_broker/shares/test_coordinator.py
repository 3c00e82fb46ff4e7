"""The share coordinator serves the partitions that it leads, and prunes what later snapshots have replaced.

Method: run operations on a coordinator with logs in memory, and advance the time.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.shares.coordinator import PRUNE_INTERVAL_MS, ShareCoordinator
from kafkawire.reference_broker.shares.shard import Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.shares.share_partition_bench import new_limits

KEY, OTHER = (SharePartitionKey("g", b"t" * 16, number) for number in range(2))


class CoordinatorBench:
    """A coordinator of one partition."""

    def __init__(self, log=None):
        self.log = log or MemoryLog()
        self.timers = Timers()
        self.pruned = []
        limits = new_limits(share_coordinator_snapshot_update_records_per_snapshot=2)
        self.coordinator = ShareCoordinator(
            self.timers, limits, lambda: 1, lambda topic_id: 4, lambda number, offset: self.pruned.append(offset)
        )

    def elect(self):
        self.coordinator.elected(0, self.log, 0, 0)
        while self.coordinator.is_loading:
            self.timers.fire(0)
        return self

    def ask(self, operation, *args) -> Any:
        outcomes = []
        operation(*args, outcomes.append, 0)
        (outcome,) = outcomes
        return outcome.code if isinstance(outcome, BrokerError) else outcome

    def write(self, number, key=KEY):
        batches = (StateBatch(number, number, 1, 2),)
        return self.ask(self.coordinator.write, key, Write(0, 0, -1, 0, batches))


def test_operations():
    bench = CoordinatorBench()
    coordinator = bench.coordinator
    assert bench.ask(coordinator.summary, KEY) == ErrorCode.NOT_COORDINATOR
    bench.elect()
    assert bench.ask(coordinator.summary, KEY) is None
    assert bench.ask(coordinator.initialize, KEY, 0, 5) is None
    assert bench.ask(coordinator.read, KEY, 0).start_offset == 5
    assert bench.write(7) is None
    assert bench.ask(coordinator.summary, KEY).batches == (StateBatch(7, 7, 1, 2),)
    assert bench.ask(coordinator.delete, KEY) is None
    assert bench.write(7) == ErrorCode.INVALID_REQUEST
    coordinator.resigned(0)
    assert bench.ask(coordinator.summary, KEY) == ErrorCode.NOT_COORDINATOR
    assert coordinator.topic == "__share_group_state"


@pytest.mark.parametrize("count", range(6))
def test_another_coordinator_reads_every_update(count):
    bench = CoordinatorBench().elect()
    bench.ask(bench.coordinator.initialize, KEY, 0, 0)
    for number in range(count):
        bench.write(10 * number)
    again = CoordinatorBench(bench.log).elect()
    found = [each.ask(each.coordinator.summary, KEY) for each in (bench, again)]
    assert found[0] == found[1]
    assert len(found[0].batches) == count


def test_what_is_redundant_is_removed():
    bench = CoordinatorBench().elect()
    for key in (KEY, OTHER):
        bench.ask(bench.coordinator.initialize, key, 0, 0)
    bench.timers.fire(PRUNE_INTERVAL_MS)
    assert bench.pruned == []
    for number in range(3):
        bench.write(number)
        bench.write(number, OTHER)
    for turn in range(2, 5):
        bench.timers.fire(turn * PRUNE_INTERVAL_MS)
    assert bench.pruned[0] == 8, "two states were written as updates twice, and as snapshots three times"
    assert sorted(set(bench.pruned)) == bench.pruned


def test_unloading_answers_what_waits():
    bench = CoordinatorBench()
    outcomes = []
    bench.coordinator.elected(0, bench.log, 0, 0)
    bench.coordinator.unload()
    bench.coordinator.summary(KEY, outcomes.append, 0)
    assert [outcome.code for outcome in outcomes] == [ErrorCode.NOT_COORDINATOR]
