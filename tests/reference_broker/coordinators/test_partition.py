"""Whatever fails, a partition replies once, in order, after the write is committed, and its shard matches its log.

Method: use a shard that adds numbers, and an in-memory log whose appends, watermark and failures the test controls.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS, PARTITION_EDGES, PartitionState
from kafkawire.reference_broker.coordinators.shard import Result
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import CountingShard, record
from tests.reference_broker.coordinators.partition_bench import Bench, load, written


def test_replies_leave_at_once_when_the_log_commits_at_once():
    bench = Bench()
    bench.add(1)
    bench.add(2)
    bench.get()
    assert bench.replies == [1, 3, 3]
    assert bench.shard.numbers == {"a": 3}


def test_replies_wait_for_the_high_watermark_and_keep_their_order():
    bench = Bench()
    bench.log.is_committed = False
    bench.add(1)
    bench.get()
    bench.add(2)
    bench.get()
    assert bench.replies == []
    assert bench.shard.numbers == {"a": 3}, "the state follows the log, not the watermark"
    bench.log.commit(1)
    assert bench.replies == [1, 1]
    bench.log.commit(2)
    assert bench.replies == [1, 1, 3, 3]


def test_what_was_loaded_is_not_told_before_it_is_committed():
    log = written([record("a", 1)])
    log.high_watermark = 0
    bench = Bench(log)
    load(bench)
    bench.get()
    assert bench.replies == []
    log.commit(1)
    assert bench.replies == [1]


def test_whoever_asks_as_the_high_watermark_moves_comes_after_those_who_waited():
    bench = Bench()
    bench.log.is_committed = False
    bench.log.when_reached(1, lambda error: bench.get("b"))
    bench.add(1)
    bench.log.commit(1)
    assert bench.replies == [1, None]


def test_records_are_replayed_with_their_offset():
    bench = Bench()
    bench.add(1)
    bench.add(2, "b")
    assert bench.shard.places == [("a", 0, NO_PRODUCER_ID), ("b", 1, NO_PRODUCER_ID)]


def test_reply_that_is_not_committed_in_time_fails():
    bench = Bench()
    bench.log.is_committed = False
    bench.add(1, now=0)
    bench.add(2, now=10)
    bench.timers.fire(4_999)
    assert bench.replies == []
    bench.timers.fire(5_000)
    assert bench.replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.log.commit(2)
    assert bench.replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE, 3], "each request has its own deadline and one answer"
    bench.add(4, now=COMMIT_TIMEOUT_MS)
    bench.timers.fire(2 * COMMIT_TIMEOUT_MS)
    assert bench.replies[2:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_deadlines_of_replies_move_with_the_clock(jump_ms):
    bench = Bench()
    bench.log.is_committed = False
    bench.add(1, now=0)
    bench.add(2, now=10)
    bench.timers.shift(jump_ms)
    bench.timers.fire(jump_ms + COMMIT_TIMEOUT_MS)
    assert len(bench.replies) == 1
    bench.timers.fire(jump_ms + COMMIT_TIMEOUT_MS + 9)
    assert len(bench.replies) == 1
    bench.timers.fire(jump_ms + COMMIT_TIMEOUT_MS + 10)
    assert bench.replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_deadline_of_a_reply_that_is_asked_for_after_a_jump(jump_ms):
    bench = Bench()
    bench.log.is_committed = False
    bench.timers.shift(jump_ms)
    bench.add(1, now=jump_ms)
    bench.timers.fire(jump_ms + COMMIT_TIMEOUT_MS - 1)
    assert bench.replies == []
    bench.timers.fire(jump_ms + COMMIT_TIMEOUT_MS)
    assert bench.replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_operations_wait_for_an_unfinished_append():
    bench = Bench()
    bench.log.held = []
    bench.add(1)
    bench.add(2)
    bench.get()
    assert (bench.replies, bench.shard.numbers) == ([], {})
    bench.log.release()
    assert (bench.replies, bench.shard.numbers) == ([1], {"a": 1})
    bench.log.release()
    assert bench.replies == [1, 3, 3]


def test_what_a_replay_submits_comes_after_the_reply(monkeypatch):
    bench = Bench()
    bench.log.held, bench.log.is_committed = [], False
    replay = bench.shard.replay

    def replay_and_submit(record, offset, producer_id):
        replay(record, offset, producer_id)
        bench.get()

    monkeypatch.setattr(bench.shard, "replay", replay_and_submit)
    bench.add(1)
    bench.add(10)
    (finish,), bench.log.held = bench.log.held, None
    finish()
    bench.log.commit(1)
    assert bench.replies == [1]
    bench.log.commit(2)
    assert bench.replies == [1, 11, 11, 11]


def test_failed_append_leaves_the_state_untouched_and_answers():
    bench = Bench()
    bench.add(1)
    told = []
    bench.log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    bench.ask(lambda shard: Result(7, [record("a", 9)], told.append))
    assert bench.replies == [1, ErrorCode.NOT_COORDINATOR], "clients know only the errors of coordinators"
    assert [error.code for error in told] == [ErrorCode.NOT_COORDINATOR]
    assert bench.shard.numbers == {"a": 1}
    bench.log.error = None
    bench.add(1)
    assert bench.replies[-1] == 2


def test_refused_operation_appends_nothing():
    bench = Bench()
    bench.add(-1)
    bench.add(1)
    assert bench.replies == [ErrorCode.INVALID_REQUEST, 1]
    assert len(bench.log.batches) == 1


@pytest.mark.defect
def test_defect_answers_its_own_request_only(caplog):
    bench = Bench()
    bench.log.held = []
    bench.add(1)
    bench.ask(divide_by_zero)
    bench.ask(lambda shard: Result(1, (), fail))
    bench.add(1)
    bench.log.held, (held,) = None, bench.log.held
    held()
    assert bench.replies == [1, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "an operation on topic-0 failed",
        "topic-0 could not apply a commit",
    ]


def divide_by_zero(shard) -> Any:
    return 1 / 0


def fail(error):
    raise ZeroDivisionError


@pytest.mark.defect
def test_record_that_cannot_be_written_answers_its_own_request_only(caplog):
    bench, told = Bench(), []
    bench.ask(lambda shard: Result(1, [record("a" * 40_000, 1)], told.append))
    bench.add(1)
    assert bench.replies == [ErrorCode.UNKNOWN_SERVER_ERROR, 1]
    assert [error.code for error in told] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "the string has 40000 bytes" in caplog.text


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.defect
def test_shard_that_cannot_take_over_a_record_is_unloaded_and_everybody_answered(caplog, monkeypatch, is_held):
    bench, told = Bench(), []
    bench.log.is_committed = False
    bench.add(1)
    monkeypatch.setattr(bench.shard, "replay", lambda record, offset, producer_id: 1 / 0)
    if is_held:
        bench.log.held = []
    bench.ask(lambda shard: Result(1, [record("a", 1)], told.append))
    bench.add(1)
    if is_held:
        bench.log.release()
    bench.log.commit(2)
    assert bench.replies == [ErrorCode.NOT_COORDINATOR] * 3
    assert [error.code for error in told] == [ErrorCode.NOT_COORDINATOR]
    assert bench.shard.calls == ["loaded", "unloaded"]
    assert [line.getMessage() for line in caplog.records] == ["unloading topic-0, which could not replay a record"]


@pytest.mark.parametrize("batches", [[], [[record("a", 1)]]])
@pytest.mark.defect
def test_shard_that_cannot_start_after_its_load_is_unloaded(caplog, monkeypatch, batches):
    log = written(*batches)
    monkeypatch.setattr(CountingShard, "loaded", lambda shard, now_ms: 1 / 0)
    bench = Bench(log)
    load(bench)
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR]
    assert "topic-0 cannot be loaded" in caplog.text


@pytest.mark.defect
def test_lines_about_defects_are_limited(caplog):
    bench = Bench()
    for _ in range(100):
        bench.ask(divide_by_zero)
        bench.ask(lambda shard: Result(1, [record("a" * 40_000, 1)]))
        bench.ask(lambda shard: Result(1, (), fail))
    assert bench.replies == [ErrorCode.UNKNOWN_SERVER_ERROR] * 300
    assert len(caplog.records) == 3


def test_records_that_the_shard_holds_are_not_replayed():
    bench = Bench()
    told = []
    bench.ask(lambda shard: Result(None, [record("a", 1, is_held=True)], told.append))
    assert (bench.shard.numbers, told) == ({}, [None])


def test_queue_is_limited(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.coordinators.partition._QUEUE_MAX", 2)
    bench = Bench()
    bench.log.held = []
    for _ in range(4):
        bench.add(1)
    assert bench.replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_loading_refuses_requests_and_happens_in_slices():
    log = written([record("a", 1)], [record("b", 2), record("a", 3)], [record("b", None)])
    bench = Bench(log)
    bench.get()
    assert bench.replies == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert load(bench) > 3
    assert (bench.shard.numbers, bench.shard.calls) == ({"a": 3}, ["loaded"])
    bench.add(1)
    assert bench.replies[1:] == [4]


def test_log_that_cannot_be_read_is_not_served(caplog):
    log = written([record("a", 1)])
    log.error = BrokerError(ErrorCode.CORRUPT_MESSAGE, "crc")
    bench = Bench(log)
    load(bench)
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR]
    assert "topic-0 cannot be loaded" in caplog.text
    assert bench.shard.calls == []


def test_load_goes_on_when_the_disk_has_failed_for_a_moment(caplog):
    log = written([record("a", 1)], [record("b", 2)])
    bench = Bench(log)
    assert bench.partition.load_slice(0) == 0
    log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO")
    assert bench.partition.load_slice(0) == 100
    bench.get()
    assert bench.replies == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    log.error = None
    load(bench)
    assert bench.shard.numbers == {"a": 1, "b": 2}
    assert not caplog.records


def test_load_waits_for_an_index_that_is_rebuilt(caplog):
    log = written([record("a", 1)])
    log.error = NotPrepared(0)
    bench = Bench(log)
    assert {bench.partition.load_slice(0) for _ in range(20)} == {20}
    log.error = None
    load(bench)
    assert (bench.shard.numbers, caplog.records) == ({"a": 1}, [])


def test_load_ends_when_the_disk_goes_on_failing(caplog):
    log = written([record("a", 1)])
    log.error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "EIO")
    bench = Bench(log)
    assert load(bench) == 6
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR]
    assert "topic-0 cannot be loaded" in caplog.text


@pytest.mark.defect
def test_defect_ends_a_load(caplog, monkeypatch):
    def replay(shard, record, offset, producer_id):
        raise ZeroDivisionError

    bench = Bench(written([record("a", 1)]))
    monkeypatch.setattr(CountingShard, "replay", replay)
    load(bench)
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR]
    assert "topic-0 cannot be loaded" in caplog.text


def test_unloading_answers_everything_once():
    bench = Bench()
    bench.log.is_committed = False
    bench.add(1)
    bench.log.held = []
    bench.add(2)
    bench.get()
    bench.partition.close()
    bench.get()
    assert bench.replies == [ErrorCode.NOT_COORDINATOR] * 4
    assert bench.shard.calls == ["loaded", "unloaded"]
    bench.log.release()
    bench.log.commit(2)
    bench.partition.close()
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    assert len(bench.replies) == 4
    assert bench.shard.calls == ["loaded", "unloaded"]


def test_unloading_stops_the_load():
    bench = Bench(written([record("a", 1)]))
    bench.partition.close()
    bench.partition.load_slice(0)
    assert bench.partition.state is PartitionState.CLOSED
    assert (bench.shard.replayed, bench.shard.calls) == (0, [])


def test_timers_of_the_shard_fire_and_append():
    bench = Bench()
    bench.ask(lambda shard: shard.add_later("a", 5, 100))
    bench.ask(lambda shard: shard.add_later("b", 6, 50))
    bench.ask(lambda shard: shard.add_later("c", 7, 150))
    for now in (49, 50, 100, 149):
        bench.timers.fire(now)
        assert bench.shard.numbers == {"b": 6} if now == 50 else True
    assert bench.shard.numbers == {"b": 6, "a": 5}
    bench.timers.fire(150)
    assert bench.shard.numbers == {"b": 6, "a": 5, "c": 7}
    assert bench.timers.next_deadline_ms is None


def test_timer_can_be_cancelled_while_its_action_waits_for_an_append():
    bench = Bench()
    bench.ask(lambda shard: shard.add_later("a", 5, 100))
    bench.log.held = []
    bench.add(1)
    bench.timers.fire(100)
    bench.shard.set.cancel()
    bench.log.release()
    assert bench.shard.numbers == {"a": 1}
    bench.ask(lambda shard: shard.add_later("a", 7, 200))
    bench.shard.set.cancel()
    assert bench.timers.next_deadline_ms is None


def test_timers_wait_for_an_unfinished_append_and_end_with_the_partition():
    bench = Bench()
    bench.ask(lambda shard: shard.add_later("a", 5, 100))
    bench.log.held = []
    bench.add(1)
    bench.timers.fire(100)
    bench.log.held, (held,) = None, bench.log.held
    held()
    assert bench.shard.numbers == {"a": 5}
    bench.ask(lambda shard: shard.add_later("a", 9, 200))
    bench.partition.close()
    bench.timers.fire(1_000)
    assert bench.shard.numbers == {"a": 5}


def test_any_number_of_operations_may_be_asked_for_by_those_before():
    bench = Bench()
    left = 5_000

    def next_one(_: object) -> None:
        nonlocal left
        left -= 1
        if left:
            bench.partition.submit(lambda shard: shard.get("a"), next_one, 0)

    next_one(None)
    assert left == 0


@pytest.mark.parametrize(("before", "after"), list(PARTITION_EDGES))
def test_every_edge(before: PartitionState, after: PartitionState) -> None:
    bench = Bench(written([record("a", 1)]))
    if before is PartitionState.ACTIVE:
        load(bench)
    assert bench.partition.state is before
    if after is PartitionState.ACTIVE:
        load(bench)
    else:
        bench.partition.close()
    assert bench.partition.state is after


def test_a_partition_that_was_closed_stays_closed() -> None:
    bench = Bench(written([record("a", 1)]))
    bench.partition.close()
    bench.partition.close()
    assert bench.partition.load_slice(0) == 0
    bench.get()
    assert (bench.partition.state, bench.replies) == (PartitionState.CLOSED, [ErrorCode.NOT_COORDINATOR])


def test_timers_that_are_over_take_no_memory():
    bench = Bench()
    for deadline_ms in (100, 200):
        bench.ask(lambda shard, at=deadline_ms: shard.add_later("a", 5, at))
    bench.shard.set.cancel()
    assert len(bench.partition._alarms) == 1
    bench.timers.fire(100)
    assert not bench.partition._alarms
