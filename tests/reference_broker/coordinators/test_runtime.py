"""The runtime finds the partition of a request, or says NOT_COORDINATOR; a reload begins with an empty shard.

Method: as in `test_partition.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.loading import Loading
from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.coordinators.runtime import CoordinatorRuntime
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import CountingShard, MemoryLog


def ask(runtime, number, operation):
    replies = []
    runtime.submit_to(number, operation, replies.append, 0)
    (reply,) = replies
    return reply.code if isinstance(reply, BrokerError) else reply


def test_partitions_are_apart():
    runtime = CoordinatorRuntime("topic", Timers(), CountingShard, list)
    runtime.load_partition(0, MemoryLog(), 0)
    runtime.load_partition(3, MemoryLog(), 0)
    assert ask(runtime, 0, lambda shard: shard.add("a", 1)) == 1
    assert ask(runtime, 3, lambda shard: shard.get("a")) is None
    assert ask(runtime, 1, lambda shard: shard.get("a")) == ErrorCode.NOT_COORDINATOR
    assert runtime.numbers() == [0, 3]
    assert [shard.numbers for shard in runtime.shards()] == [{"a": 1}, {}]


def test_keys_belong_to_partitions_once_the_topic_exists():
    logs, replies = [], []
    runtime = CoordinatorRuntime("topic", Timers(), CountingShard, lambda: logs)
    runtime.submit("a", lambda shard: shard.add("a", 1), replies.append, 0)
    assert [str(reply) for reply in replies] == [str(runtime.no_topic())]
    assert not runtime.load(0)
    logs += [MemoryLog() for _ in range(3)]
    logs[partition_of("a", 3)].leader_epoch = 7
    runtime.submit("a", lambda shard: shard.add("a", 1), replies.append, 0)
    assert (replies[1:], runtime.numbers()) == ([1], [0, 1, 2])
    assert [log.next_offset for log in logs] == [number == runtime.partition_of("a") for number in range(3)]
    assert runtime.leader_epoch("a") == 7
    (shard, *_) = runtime.shards()
    assert runtime.load(0)
    assert next(iter(runtime.shards())) is shard, "what is served is not loaded again"
    runtime.unload()
    assert runtime.numbers() == []
    assert runtime.load(0)


def test_unloaded_partition_can_be_loaded_again():
    timers, log = Timers(), MemoryLog()
    runtime = CoordinatorRuntime("topic", timers, CountingShard, list)
    runtime.load_partition(0, log, 0)
    ask(runtime, 0, lambda shard: shard.add("a", 1))
    runtime.unload_partition(0)
    runtime.unload_partition(0)
    assert ask(runtime, 0, lambda shard: shard.get("a")) == ErrorCode.NOT_COORDINATOR
    assert not runtime.is_loading
    runtime.load_partition(0, log, 0)
    assert runtime.is_loading
    assert (list(runtime.shards()), runtime.numbers()) == ([], [0])
    assert ask(runtime, 0, lambda shard: shard.get("a")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while runtime.is_loading:
        timers.fire(0)
    assert ask(runtime, 0, lambda shard: shard.get("a")) == 1


def test_loading_twice_unloads_the_first():
    runtime = CoordinatorRuntime("topic", Timers(), CountingShard, list)
    runtime.load_partition(0, MemoryLog(), 0)
    (first,) = runtime.shards()
    runtime.load_partition(0, MemoryLog(), 0)
    (second,) = runtime.shards()
    assert first is not second
    assert first.calls == ["loaded", "unloaded"]


def test_partitions_are_loaded_one_after_the_other(monkeypatch):
    timers, steps = Timers(), []
    runtime = CoordinatorRuntime("topic", timers, CountingShard, list)
    logs = [MemoryLog() for _ in range(4)]
    for number, log in enumerate(logs):
        runtime.load_partition(number, log, 0)
        ask(runtime, number, lambda shard: shard.add("a", 1))
    step = Loading.step
    monkeypatch.setattr(Loading, "step", lambda loading: (steps.append(logs.index(loading._log)), step(loading))[1])
    for number, log in enumerate(logs):
        runtime.load_partition(number, log, 0)
    runtime.unload_partition(2)
    fired = 0
    while runtime.is_loading:
        timers.fire(0)
        fired += 1
        assert len(steps) <= fired, "more than one slice at a time"
    assert steps == sorted(steps)
    assert set(steps) == {0, 1, 3}
    assert timers.next_deadline_ms is None


def test_partition_that_cannot_be_read_holds_up_no_other():
    timers = Timers()
    runtime = CoordinatorRuntime("topic", timers, CountingShard, list)
    logs = [MemoryLog() for _ in range(2)]
    for number, log in enumerate(logs):
        runtime.load_partition(number, log, 0)
        ask(runtime, number, lambda shard: shard.add("a", 1))
    logs[0].error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO")
    for number, log in enumerate(logs):
        runtime.load_partition(number, log, 0)
    while timers.next_deadline_ms == 0:
        timers.fire(0)
    assert len(list(runtime.shards())) == 1
    logs[0].error = None
    while runtime.is_loading:
        timers.fire(timers.next_deadline_ms or 0)
    assert len(list(runtime.shards())) == 2


@pytest.mark.parametrize("is_unloaded_again", [False, True])
def test_what_comes_late_into_the_log_is_loaded(is_unloaded_again):
    timers, log = Timers(), MemoryLog()
    runtime = CoordinatorRuntime("topic", timers, CountingShard, list)
    runtime.load_partition(3, log, 0)
    replies = []
    log.held = []
    runtime.submit_to(3, lambda shard: shard.add("a", 1), replies.append, 0)
    runtime.unload_partition(3)
    assert [reply.code for reply in replies] == [ErrorCode.NOT_COORDINATOR]
    for _ in range(2 if is_unloaded_again else 1):
        runtime.load_partition(3, log, 0)
        timers.fire(0)
        assert ask(runtime, 3, lambda shard: shard.get("a")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    log.release()
    while runtime.is_loading:
        timers.fire(0)
    assert ask(runtime, 3, lambda shard: shard.get("a")) == 1
    assert not runtime._unloaded, "what it held before takes no memory"
