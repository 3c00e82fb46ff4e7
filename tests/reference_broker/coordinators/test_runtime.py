"""A broker serves the partitions for which it is elected until it resigns, and a reload begins with an empty shard.

Method: proceed as in `test_partition.py`.
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

NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def new_runtime(timers=None, size_of=lambda: 4):
    return CoordinatorRuntime("topic", timers or Timers(), lambda number, timers: CountingShard(timers), size_of)


def ask(runtime, number, operation):
    replies = []
    runtime.submit_to(number, operation, replies.append, 0)
    (reply,) = replies
    return reply.code if isinstance(reply, BrokerError) else reply


def get(runtime, number=0):
    return ask(runtime, number, lambda shard: shard.get("a"))


def add(runtime, number=0):
    return ask(runtime, number, lambda shard: shard.add("a", 1))


def filled(number_of_records=1):
    """Return a log with records, each of which takes one slice of work to load."""
    log, runtime = MemoryLog(), new_runtime()
    runtime.elected(0, log, 0, 0)
    for _ in range(number_of_records):
        add(runtime)
    return log


def load(runtime, timers):
    while runtime.is_loading:
        timers.fire(0)


def test_partitions_are_apart():
    runtime = new_runtime()
    assert runtime.elected(0, MemoryLog(), 0, 0)
    assert runtime.elected(3, MemoryLog(), 0, 0)
    assert (add(runtime, 0), get(runtime, 3), get(runtime, 1)) == (1, None, NOT_COORDINATOR)
    assert runtime.numbers() == [0, 3]
    assert [shard.numbers for shard in runtime.shards()] == [{"a": 1}, {}]
    assert runtime.resigned(0, 1)
    assert (get(runtime, 0), get(runtime, 3)) == (NOT_COORDINATOR, None)
    assert (runtime.numbers(), [shard.numbers for shard in runtime.shards()]) == ([3], [{}])


def test_keys_belong_to_partitions_once_the_topic_exists():
    sizes, replies = [0], []
    runtime = new_runtime(size_of=lambda: sizes[-1])
    runtime.submit("a", lambda shard: shard.add("a", 1), replies.append, 0)
    assert [str(reply) for reply in replies] == [str(runtime.no_topic())]
    sizes.append(3)
    logs = [MemoryLog() for _ in range(3)]
    for number, log in enumerate(logs):
        runtime.elected(number, log, 7 + number, 0)
    runtime.submit("a", lambda shard: shard.add("a", 1), replies.append, 0)
    assert (replies[1:], runtime.numbers()) == ([1], [0, 1, 2])
    assert [log.next_offset for log in logs] == [number == runtime.partition_of("a") for number in range(3)]
    assert runtime.leader_epoch(2) == 9


def test_key_of_another_brokers_partition():
    """The broker may lead no partition at all, or only other partitions than that of the key."""
    runtime, replies = new_runtime(), []
    number = partition_of("a", 4)
    runtime.submit("a", lambda shard: shard.get("a"), replies.append, 0)
    runtime.elected((number + 1) % 4, MemoryLog(), 0, 0)
    runtime.submit("a", lambda shard: shard.get("a"), replies.append, 0)
    assert [reply.code for reply in replies] == [NOT_COORDINATOR] * 2
    assert f"topic-{number}" in str(replies[0])


def test_keys_stay_while_the_topic_grows():
    sizes = [4]
    runtime = new_runtime(size_of=lambda: sizes[-1])
    runtime.elected(0, MemoryLog(), 0, 0)
    sizes.append(50)
    runtime.elected(49, MemoryLog(), 0, 0)
    assert (runtime.size, runtime.partition_of("a")) == (4, partition_of("a", 4))
    for number in (0, 49):
        runtime.resigned(number)
    assert (runtime.size, runtime.partition_of("a")) == (50, partition_of("a", 50)), "no partition is served"


def test_loaded_again_after_a_resignation():
    timers, log = Timers(), MemoryLog()
    runtime = new_runtime(timers)
    runtime.elected(0, log, 5, 0)
    add(runtime)
    assert runtime.resigned(0, 6)
    assert runtime.resigned(0, 6), "a repeated resignation also succeeds"
    assert (get(runtime), runtime.is_loading) == (NOT_COORDINATOR, False)
    assert runtime.elected(0, log, 7, 0)
    assert (runtime.is_loading, list(runtime.shards()), runtime.numbers()) == (True, [], [0])
    assert get(runtime) == LOADING
    load(runtime, timers)
    assert get(runtime) == 1


@pytest.mark.parametrize("is_loading", [True, False])
def test_a_later_epoch_does_not_interrupt(is_loading):
    timers = Timers()
    runtime = new_runtime(timers)
    runtime.elected(0, filled(), 5, 0)
    if not is_loading:
        load(runtime, timers)
    (shard,) = [each.shard for each in runtime._partitions.values()]
    assert not runtime.elected(0, MemoryLog(), 6, 0)
    assert (runtime._partitions[0].shard is shard, runtime.is_loading) == (True, is_loading)
    load(runtime, timers)
    assert get(runtime) == 1
    assert not runtime.resigned(0, 5), "the resignation's epoch is before the last election"
    assert get(runtime) == 1
    assert runtime.resigned(0, 6), "a leader may stop in its own epoch"
    assert get(runtime) == NOT_COORDINATOR


@pytest.mark.parametrize(
    ("resigned", "elected", "is_served"),
    [(6, 5, False), (6, 6, False), (6, 7, True), (5, 5, False), (None, 0, True)],
)
def test_old_elections_are_ignored(resigned, elected, is_served):
    runtime = new_runtime()
    runtime.elected(0, MemoryLog(), 5, 0)
    assert runtime.resigned(0, resigned)
    assert runtime.elected(0, MemoryLog(), elected, 0) == is_served
    assert get(runtime) == (None if is_served else NOT_COORDINATOR)


def test_same_election_twice():
    runtime = new_runtime()
    runtime.elected(0, MemoryLog(), 5, 0)
    for epoch in (5, 4, 0):
        assert not runtime.elected(0, MemoryLog(), epoch, 0)
    (shard,) = runtime.shards()
    assert shard.calls == ["loaded"]


def test_failed_log_is_loaded_in_a_later_epoch_only():
    log, timers = filled(), Timers()
    runtime = new_runtime(timers)
    log.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO"))
    runtime.elected(0, log, 5, 0)
    assert (get(runtime), runtime.numbers()) == (NOT_COORDINATOR, [])
    assert not runtime.elected(0, filled(), 5, 0)
    assert get(runtime) == NOT_COORDINATOR
    assert runtime.elected(0, filled(2), 6, 0)
    load(runtime, timers)
    assert get(runtime) == 2


@pytest.mark.parametrize("slices", [0, 1, 2])
@pytest.mark.parametrize("is_elected_again", [True, False])
def test_resignation_during_a_load(slices, is_elected_again):
    timers, old = Timers(), filled(5)
    runtime = new_runtime(timers)
    runtime.elected(0, old, 5, 0)
    for _ in range(slices):
        timers.fire(0)
    assert get(runtime) == LOADING
    (first,) = [each.shard for each in runtime._partitions.values()]
    runtime.resigned(0, 6)
    assert get(runtime) == NOT_COORDINATOR
    if is_elected_again:
        runtime.elected(0, filled(2), 7, 0)
        assert get(runtime) == LOADING
    timers.fire(0)
    load(runtime, timers)
    assert get(runtime) == (2 if is_elected_again else NOT_COORDINATOR)
    assert (first.calls, timers.next_deadline_ms) == ([], None), "the end of the first load must have no effect"


def test_resignation_answers_what_waits_and_writes_nothing_more():
    timers, log, replies = Timers(), MemoryLog(), []
    runtime = new_runtime(timers)
    runtime.elected(0, log, 0, 0)
    log.is_committed = False
    for name, number in (("committing", 1), ("being appended", 2), ("waiting for its turn", 3)):
        runtime.submit_to(0, lambda shard, given=(name, number): shard.add(*given), replies.append, 0)
        log.held = log.held or []
    runtime.submit_to(0, lambda shard: shard.add_later("late", 5, 100), replies.append, 0)
    runtime.resigned(0, 1)
    assert [reply.code for reply in replies] == [NOT_COORDINATOR] * 4
    log.release()
    log.commit(log.next_offset)
    timers.fire(10_000)
    assert (len(replies), log.next_offset, log.held) == (4, 2, []), "only the append under way takes effect"


def test_resignation_ends_timers():
    timers = Timers()
    runtime = new_runtime(timers)
    runtime.elected(0, MemoryLog(), 0, 0)
    for deadline_ms in (100, 1_000):
        assert ask(runtime, 0, lambda shard, at=deadline_ms: shard.add_later("a", 5, at)) is None
    timers.fire(100)
    assert get(runtime) == 5
    assert timers.next_deadline_ms == 1_000
    runtime.resigned(0, 1)
    assert timers.next_deadline_ms is None


def test_everything_is_unloaded():
    runtime, logs = new_runtime(), [MemoryLog() for _ in range(4)]
    for number, log in enumerate(logs):
        runtime.elected(number, log, 5, 0)
    add(runtime, 1)
    runtime.unload()
    assert (runtime.numbers(), get(runtime, 1)) == ([], NOT_COORDINATOR)
    assert runtime.elected(0, logs[0], 5, 0)


def test_partitions_are_loaded_one_after_the_other(monkeypatch):
    timers, steps = Timers(), []
    runtime = new_runtime(timers)
    logs = [filled() for _ in range(4)]
    step = Loading.step
    monkeypatch.setattr(Loading, "step", lambda loading: (steps.append(logs.index(loading._log)), step(loading))[1])
    for number, log in enumerate(logs):
        runtime.elected(number, log, 0, 0)
    runtime.resigned(2, 1)
    fired = 0
    while runtime.is_loading:
        timers.fire(0)
        fired += 1
        assert len(steps) <= fired, "more than one slice is read at a time"
    assert steps == sorted(steps)
    assert set(steps) == {0, 1, 3}
    assert timers.next_deadline_ms is None


def test_partition_that_cannot_be_read_holds_up_no_other():
    timers = Timers()
    runtime = new_runtime(timers)
    logs = [filled() for _ in range(2)]
    logs[0].error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO")
    for number, log in enumerate(logs):
        runtime.elected(number, log, 0, 0)
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
    runtime = new_runtime(timers)
    runtime.elected(3, log, 0, 0)
    replies = []
    log.held = []
    runtime.submit_to(3, lambda shard: shard.add("a", 1), replies.append, 0)
    runtime.resigned(3, 1)
    assert [reply.code for reply in replies] == [NOT_COORDINATOR]
    for epoch in (2, 4) if is_unloaded_again else (2,):
        runtime.resigned(3, epoch - 1)
        runtime.elected(3, log, epoch, 0)
        timers.fire(0)
        assert get(runtime, 3) == LOADING
    log.release()
    load(runtime, timers)
    assert get(runtime, 3) == 1
    assert not runtime._unloaded, "the former partition takes up no memory"


def test_what_is_unloaded_for_good_takes_no_memory():
    log = MemoryLog()
    runtime = new_runtime()
    runtime.elected(0, log, 0, 0)
    log.held = []
    runtime.submit_to(0, lambda shard: shard.add("a", 1), lambda reply: None, 0)
    runtime.resigned(0, 1)
    log.release()
    assert not runtime._unloaded


def test_a_load_that_is_no_longer_wanted_does_not_begin():
    log = MemoryLog()
    runtime = new_runtime()
    runtime.elected(0, log, 0, 0)
    log.held = []
    runtime.submit_to(0, lambda shard: shard.add("a", 1), lambda reply: None, 0)
    watched = len(log._watchers)
    for epoch in (1, 3):
        runtime.resigned(0, epoch)
        runtime.elected(0, log, epoch + 1, 0)
    runtime.resigned(0, 5)
    log.release()
    assert (len(log._watchers), runtime.is_loading) == (watched, False)
