"""A share coordinator's shard checks epochs, writes updates and snapshots, and its state equals that of its records.

Method: run operations, replay their records, and compare with a shard that replays the same log.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.shares.shard import COLD_INTERVAL_MS, ShareShard, StateRefused, Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_snapshot import ShareSnapshotKey
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_update import ShareUpdateKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.shares.share_partition_bench import new_limits

TOPIC = b"t" * 16
KEY, OTHER, BEYOND, NEGATIVE = (SharePartitionKey("g", TOPIC, number) for number in (0, 1, 9, -1))
UNKNOWN = SharePartitionKey("g", b"u" * 16, 0)

ACCEPTED = StateBatch(0, 4, 1, 2)


def decoded(shard, entry):
    record = shard.decode(*entry)
    assert record is not None
    return record


class ShardBench:
    """A shard and its log."""

    def __init__(self, updates: int = 3) -> None:
        self.limits = new_limits(share_coordinator_snapshot_update_records_per_snapshot=updates)
        self.shard = self.new()
        self.log = []
        self.now_ms = 1_000

    def new(self):
        return ShareShard(self.limits, lambda topic_id: 4 if topic_id == TOPIC else 0)

    def run(self, result):
        """Replay what an operation writes; return its outcome."""
        for record in result.records:
            self.shard.replay(record, len(self.log), -1)
            self.log.append(encode(record))
        return result.reply

    def initialize(self, key=KEY, epoch=0, start=0):
        return self.run(self.shard.initialize(key, epoch, start, self.now_ms))

    def write(self, *batches, key=KEY, epoch=0, leader=0, start=-1, count=0):
        return self.run(self.shard.write(key, Write(epoch, leader, start, count, batches), self.now_ms))

    def kinds(self):
        names = {ShareSnapshotKey: "snapshot", ShareUpdateKey: "update"}
        return [names[type(decoded(self.shard, entry).key)] for entry in self.log]

    def check_replay(self):
        again = self.new()
        for offset, entry in enumerate(self.log):
            again.replay(decoded(again, entry), offset, -1)
        assert again.states == self.shard.states
        assert again.offsets.redundant_to == self.shard.offsets.redundant_to


def code_of(call):
    try:
        call()
    except StateRefused as error:
        return error.code
    return ErrorCode.NONE


def test_a_state_is_initialized_written_and_read():
    bench = ShardBench()
    bench.initialize(start=3)
    assert bench.run(bench.shard.read(KEY, 0, 0)).start_offset == 3
    bench.write(StateBatch(3, 9, 1, 2), StateBatch(20, 29, 2, 0), start=-1, count=7)
    state = bench.run(bench.shard.read(KEY, 0, 0))
    assert (state.start_offset, state.delivery_complete_count) == (3, 7)
    assert state.batches == (StateBatch(3, 9, 1, 2), StateBatch(20, 29, 2, 0))
    bench.write(start=10)
    assert bench.shard.states[KEY].batches == (StateBatch(20, 29, 2, 0),)
    summary = bench.run(bench.shard.summary(KEY))
    assert summary is not None
    assert summary.start_offset == 10
    bench.check_replay()


@pytest.mark.parametrize(("start", "count"), [(-1, -1), (0, 0), (7, 0)])
def test_the_number_of_complete_deliveries_is_unknown_until_the_start_is_known(start, count):
    bench = ShardBench()
    bench.initialize(start=start)
    assert bench.shard.states[KEY].delivery_complete_count == count


def test_snapshots_are_written_now_and_then():
    bench = ShardBench(updates=2)
    bench.initialize()
    for number in range(8):
        bench.write(StateBatch(number, number, 1, 2))
    assert bench.kinds() == ["snapshot", *["update", "update", "snapshot"] * 2, "update", "update"]
    assert bench.shard.states[KEY].snapshot_epoch == 2
    assert bench.shard.states[KEY].batches == (StateBatch(0, 7, 1, 2),)
    bench.check_replay()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda bench: bench.initialize(NEGATIVE), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.initialize(BEYOND), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda bench: bench.initialize(UNKNOWN), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda bench: bench.initialize(epoch=4), ErrorCode.FENCED_STATE_EPOCH),
        (lambda bench: bench.initialize(epoch=5), ErrorCode.NONE),
        (lambda bench: bench.initialize(epoch=-1), ErrorCode.NONE),
        (lambda bench: bench.shard.read(NEGATIVE, 0, 0), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.shard.read(OTHER, 0, 0), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.shard.read(KEY, 6, 0), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda bench: bench.shard.read(KEY, 7, 0), ErrorCode.NONE),
        (lambda bench: bench.write(ACCEPTED, key=NEGATIVE), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.write(ACCEPTED, key=OTHER), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.write(ACCEPTED, epoch=5, leader=6), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda bench: bench.write(ACCEPTED, epoch=4, leader=7), ErrorCode.FENCED_STATE_EPOCH),
        (lambda bench: bench.write(ACCEPTED, epoch=-1, leader=-1), ErrorCode.NONE),
        (lambda bench: bench.write(ACCEPTED, epoch=5, leader=7), ErrorCode.NONE),
        (lambda bench: bench.shard.delete(NEGATIVE), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.shard.delete(UNKNOWN), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda bench: bench.shard.delete(OTHER), ErrorCode.NONE),
        (lambda bench: bench.shard.summary(NEGATIVE), ErrorCode.INVALID_REQUEST),
        (lambda bench: bench.shard.summary(UNKNOWN), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda bench: bench.shard.summary(OTHER), ErrorCode.NONE),
    ],
)
def test_checks(call, code):
    bench = ShardBench()
    bench.initialize(epoch=5)
    bench.run(bench.shard.read(KEY, 7, 0))
    before = list(bench.log)
    assert code_of(lambda: call(bench)) == code
    if code:
        assert bench.log == before


def test_a_later_leader_fences_earlier_ones():
    bench = ShardBench()
    bench.initialize()
    bench.run(bench.shard.read(KEY, 3, 0))
    assert bench.kinds() == ["snapshot", "update"]
    bench.run(bench.shard.read(KEY, 3, 0))
    assert len(bench.log) == 2, "nothing has changed"
    assert code_of(lambda: bench.write(ACCEPTED, leader=2)) == ErrorCode.FENCED_LEADER_EPOCH
    bench.check_replay()


def test_a_state_is_deleted():
    bench = ShardBench()
    bench.initialize()
    bench.initialize(OTHER)
    bench.run(bench.shard.delete(KEY))
    assert set(bench.shard.states) == {OTHER}
    assert code_of(lambda: bench.write(ACCEPTED)) == ErrorCode.INVALID_REQUEST
    bench.run(bench.shard.forget_topics(frozenset({b"u" * 16})))
    assert set(bench.shard.states) == {OTHER}
    bench.run(bench.shard.forget_topics(frozenset({TOPIC})))
    assert bench.shard.states == {}
    bench.check_replay()


def test_a_state_that_begins_again_has_the_next_epoch():
    bench = ShardBench()
    bench.initialize()
    bench.write(ACCEPTED)
    bench.initialize(epoch=1, start=20)
    state = bench.shard.states[KEY]
    assert (state.snapshot_epoch, state.state_epoch, state.start_offset, state.batches) == (1, 1, 20, ())
    bench.check_replay()


def test_states_without_changes_get_new_snapshots():
    bench = ShardBench()
    bench.initialize()
    assert bench.shard.offsets.redundant_to is None
    bench.initialize(OTHER)
    bench.now_ms += COLD_INTERVAL_MS - 1
    bench.run(bench.shard.snapshot_cold(bench.now_ms))
    assert len(bench.log) == 2
    bench.now_ms += 1
    bench.initialize(OTHER, epoch=1)
    bench.run(bench.shard.snapshot_cold(bench.now_ms))
    assert (len(bench.log), bench.shard.offsets.redundant_to) == (4, 2)
    bench.check_replay()


def test_no_snapshots_are_written_if_nothing_has_changed_since_the_last_ones():
    bench = ShardBench()
    bench.initialize()
    for expected in (2, 2):
        bench.now_ms += COLD_INTERVAL_MS
        bench.run(bench.shard.snapshot_cold(bench.now_ms))
        assert len(bench.log) == expected
