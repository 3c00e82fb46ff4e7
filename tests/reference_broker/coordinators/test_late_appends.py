"""No request waits long for a slow append, which still takes effect when it ends; deadlines follow clock jumps.

Method: proceed as in `test_partition.py`; the log holds back its appends.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS
from kafkawire.reference_broker.coordinators.shard import Result
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import record
from tests.reference_broker.coordinators.partition_bench import Bench

LATE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def bench():
    bench = Bench()
    bench.log.held = []
    return bench


def test_everybody_is_answered_in_time(bench):
    bench.add(1, now=0)
    bench.get(now=10)
    bench.add(1, now=20)
    for now_ms, answers in ((4_999, 0), (5_000, 1), (5_009, 1), (5_010, 2), (5_020, 3)):
        bench.timers.fire(now_ms)
        assert bench.replies == [LATE] * answers
    bench.log.release()
    assert not bench.log.held, "an operation that was answered before its turn must not run"
    assert bench.shard.numbers == {"a": 1}, "an append that reaches the log takes effect"
    bench.get(now=5_030)
    assert bench.replies[3:] == [1]
    assert bench.timers.next_deadline_ms is None


@pytest.mark.parametrize("error", [None, BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)])
def test_nobody_is_told_twice(bench, error):
    told = []
    bench.ask(lambda shard: Result(1, [record("a", 1)], told.append))
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    assert ([each.code for each in told], bench.replies) == ([LATE], [LATE])
    bench.log.error, bench.log.is_committed = error, False
    bench.log.release()
    bench.log.commit(1)
    bench.timers.fire(3 * COMMIT_TIMEOUT_MS)
    assert (len(told), len(bench.replies)) == (1, 1)
    assert bench.shard.numbers == ({"a": 1} if error is None else {})


def test_partition_may_be_closed_before_the_append_ends(bench):
    bench.add(1)
    bench.get(now=1)
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    bench.partition.close()
    bench.log.release()
    assert bench.replies == [LATE, ErrorCode.NOT_COORDINATOR]
    assert not bench.partition.is_appending


def test_timers_of_the_shard_wait_for_as_long_as_it_takes(bench):
    bench.ask(lambda shard: shard.add_later("b", 5, 100))
    bench.add(1, now=90)
    bench.timers.fire(100)
    bench.timers.fire(20_000)
    assert bench.replies == [None, LATE]
    bench.log.release()
    bench.log.release()
    assert bench.shard.numbers == {"a": 1, "b": 5}


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
@pytest.mark.parametrize("is_appended", [False, True])
def test_deadlines_follow_the_clock(bench, jump_ms, is_appended):
    bench.log.is_committed = False
    bench.add(1, now=0)
    bench.get(now=10)
    bench.timers.shift(jump_ms)
    if is_appended:
        bench.log.release()
    bench.timers.fire(jump_ms + 4_999)
    assert bench.replies == []
    bench.timers.fire(jump_ms + 5_000)
    assert bench.replies == [LATE]
    bench.timers.fire(jump_ms + 5_010)
    assert bench.replies == [LATE] * 2


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_timers_that_are_set_late_follow_the_clock(bench, jump_ms):
    bench.add(1, now=0)
    bench.ask(lambda shard: shard.add_later("b", 5, 100))
    seen = []
    bench.ask(lambda shard: Result(shard.timers.jumped_ms))
    bench.partition.submit(lambda shard: Result(None, (), lambda _: set_later(bench, 200)), seen.append, 0)
    bench.timers.shift(jump_ms)
    bench.log.release()
    bench.log.held = None
    assert bench.replies == [1, None, 0], "deadlines stored elsewhere also refer to that time"
    assert bench.partition.jumped_ms == jump_ms
    bench.timers.fire(jump_ms + 99)
    assert bench.shard.numbers == {"a": 1}
    bench.timers.fire(jump_ms + 100)
    assert bench.shard.numbers == {"a": 1, "b": 5}
    bench.timers.fire(jump_ms + 200)
    assert bench.shard.numbers == {"a": 1, "b": 5, "c": 6}


def set_later(bench, deadline_ms):
    bench.shard.add_later("c", 6, deadline_ms)
