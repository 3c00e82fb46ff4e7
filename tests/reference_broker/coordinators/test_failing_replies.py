"""If a callback fails on a reply, the failure is logged, the callback gets an error, and others are not affected.

Method: proceed as in `test_partition.py`; two failing callers ask before a healthy one; messages are checked one at a
time.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS, CoordinatorPartition
from kafkawire.reference_broker.coordinators.shard import Result
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import CountingShard, MemoryLog, record

pytestmark = pytest.mark.defect


class Bench:
    """A partition, the replies given to failing callbacks, and those given to the others."""

    def __init__(self, *, is_committed=True, is_held=False):
        self.log, self.timers = MemoryLog(), Timers()
        self.log.is_committed = is_committed
        self.log.held = [] if is_held else None
        self.partition = CoordinatorPartition("topic-0", self.log, self.timers, CountingShard)
        self.partition.load(0)
        self.failing, self.others = [], []
        self.partition.submit(lambda shard: shard.add("a", 1), self.fail, 0)
        self.partition.submit(lambda shard: shard.get("a"), self.fail, 0)
        self.partition.submit(lambda shard: shard.get("a"), self.take, 0)

    def fail(self, reply):
        self.failing.append(value_of(reply))
        raise ZeroDivisionError

    def take(self, reply):
        self.others.append(value_of(reply))


def value_of(reply):
    return reply.code if isinstance(reply, BrokerError) else reply


def test_of_what_is_appended(caplog):
    bench = Bench(is_held=True)
    bench.log.release()
    assert bench.failing == [1, ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert bench.others == [1]
    assert "a reply from topic-0 failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_of_what_is_appended_at_once(caplog):
    bench = Bench()
    assert (bench.failing, bench.others) == ([1, ErrorCode.UNKNOWN_SERVER_ERROR] * 2, [1])
    assert caplog.text.count("a reply from topic-0 failed") == 1, "the number of log lines is limited"
    assert "cannot be written" not in caplog.text


def test_of_what_is_refused(caplog):
    bench = Bench(is_held=True)
    bench.log.error = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.log.release()
    assert bench.failing == [ErrorCode.NOT_COORDINATOR, None, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert bench.others == [None]
    assert "a reply from topic-0 failed" in caplog.text


def refuse(shard):
    raise BrokerError(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("operation", "code"),
    [(refuse, ErrorCode.INVALID_REQUEST), (lambda shard: 1 / 0, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_of_what_waited_its_turn(caplog, operation, code):
    bench = Bench(is_held=True)
    bench.partition.submit(operation, bench.fail, 0)
    bench.partition.submit(lambda shard: shard.get("a"), bench.take, 0)
    bench.log.release()
    assert (bench.failing[-1], bench.others) == (code, [1, 1])


def test_of_what_is_not_committed_in_time(caplog):
    bench = Bench(is_committed=False)
    bench.timers.fire(COMMIT_TIMEOUT_MS)
    assert bench.failing + bench.others == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert "a reply from topic-0 failed" in caplog.text


@pytest.mark.parametrize("is_held", [True, False])
def test_of_what_is_unloaded(caplog, is_held):
    bench = Bench(is_held=is_held, is_committed=False)
    bench.partition.close()
    assert bench.failing + bench.others == [ErrorCode.NOT_COORDINATOR] * 3
    assert bench.partition.shard.calls == ["loaded", "unloaded"]
    assert "a reply from topic-0 failed" in caplog.text


def fail_for(reason):
    raise ZeroDivisionError("the defect")


@pytest.mark.parametrize(
    "operation",
    [
        lambda shard: shard.get("a"),
        fail_for,
        lambda shard: Result(1, [record("a", 1)]),
        lambda shard: Result(1, (), fail_for),
    ],
    ids=["reply", "operation", "append", "committed"],
)
def test_error_says_what_the_defect_was(caplog, monkeypatch, operation):
    log, errors = MemoryLog(), []
    partition = CoordinatorPartition("topic-0", log, Timers(), CountingShard)
    partition.load(0)
    monkeypatch.setattr(log, "append", lambda *arguments: fail_for(arguments))

    def done(reply):
        if not isinstance(reply, BrokerError):
            fail_for(reply)
        errors.append(reply)

    partition.submit(operation, done, 0)
    assert [(error.code, error.detail) for error in errors] == [(ErrorCode.UNKNOWN_SERVER_ERROR, "the defect")]
