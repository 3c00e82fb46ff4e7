"""A consumer group that does not fit into one classic group record remains a consumer group when members leave.

Method: use a coordinator with an in-memory log that refuses oversized batches; a second one reads the log.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.consumer_bench import ConsumerBench
from tests.reference_broker.groups.group_bench import SESSION_MS, only


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE], ids=str)
def test_a_group_that_is_too_large_for_a_record_stays_a_consumer_group(code, caplog):
    bench = ConsumerBench(group_consumer_session_timeout_ms=SESSION_MS)
    first, second = bench.classic_group((0, 1), (2, 3))
    generation = bench.group.generation_id
    bench.beat("new")
    bench.log.error = BrokerError(code, "3 bytes, the limit is 2")
    bench.timers.fire(SESSION_MS - 1)
    for member_id in (first, second):
        assert bench.heartbeat(member_id, generation, SESSION_MS - 1) is ErrorCode.REBALANCE_IN_PROGRESS
    bench.timers.fire(SESSION_MS)
    assert "group g stays a consumer group" in caplog.text
    assert "3 bytes, the limit is 2" in caplog.text
    bench.log.error = None
    bench.timers.fire(SESSION_MS + 500)
    assert set(bench.consumers.members) == {first, second}, "the silent member is fenced nevertheless"
    assert bench.heartbeat(first, generation, SESSION_MS + 500) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.leave(second, SESSION_MS + 500) is ErrorCode.NONE
    assert set(bench.group.members) == {first}, "a smaller record is tried"


def refused_once(bench, step):
    """Return the answer to an operation whose first append is refused as too large."""
    bench.log.held = []
    answers = step()
    bench.log.error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
    bench.log.release()
    assert len(bench.log.held) == 1
    bench.log.error = None
    bench.log.release()
    bench.log.held = None
    return only(answers)


def test_a_member_leaves_a_group_that_is_too_large_for_a_record():
    bench = ConsumerBench()
    first, second = bench.classic_group((0, 1), (2, 3))
    bench.beat("new")
    assert refused_once(bench, lambda: bench.beat("new", -1, answers=[])).member_epoch == -1
    for known in (bench, bench.loaded()):
        assert (set(known.consumers.members), list(known.groups.classic_groups())) == ({first, second}, [])


def test_members_that_leave_together_leave_a_group_that_is_too_large_for_a_record():
    bench = ConsumerBench()
    (classic,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new", instance_id="i")
    answers = []
    left = refused_once(bench, lambda: bench.groups.leave("g", [("", "i"), ("x", None)], answers.append, 0) or answers)
    assert left == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(bench.consumers.members) == {classic}


def test_a_static_member_comes_back_to_a_group_that_is_too_large_for_a_record():
    bench = ConsumerBench()
    (classic,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new", instance_id="i")
    back = refused_once(bench, lambda: bench.join_classic(instance_id="i"))
    assert back.error_code == ErrorCode.NONE
    for known in (bench, bench.loaded()):
        assert set(known.consumers.members) == {classic, back.member_id}
    assert bench.leave(back.member_id) is ErrorCode.NONE
    assert len(bench.group.members) == 1, "a smaller record is tried"


def test_what_is_too_large_is_forgotten_with_the_group():
    bench = ConsumerBench()
    bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.log.error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
    assert bench.beat("new", -1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not any(shard._migration._downgraded for shard in bench.groups._runtime.shards())
    bench.log.error = None
    assert bench.beat("new", -1).error_code == ErrorCode.NONE
    (classic,) = bench.consumers.members
    bench.leave(classic)
    assert bench.delete() == [ErrorCode.NONE]
    (classic,) = bench.classic_group((0, 1, 2, 3))
    bench.beat("new")
    bench.beat("new", -1)
    assert set(bench.group.members) == {classic}
