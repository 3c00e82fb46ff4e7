"""The persister of a standalone broker creates the topic, and tries again after temporary errors.

Method: use a coordinator that fails a number of times, and advance the time.
"""

from __future__ import annotations

from typing import cast

import pytest

from kafkawire.reference_broker.shares.coordinator import ShareCoordinator
from kafkawire.reference_broker.shares.local_persister import LocalPersister
from kafkawire.reference_broker.shares.shard import StateRefused, Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

KEY = SharePartitionKey("g", b"t" * 16, 0)

LOADING = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")


class FailingCoordinator:
    """Fails with the given errors, then answers with the name of the operation."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = []

    def __getattr__(self, name):
        def operation(*args):
            *given, done, _ = args
            self.asked.append((name, *given))
            done(self.errors.pop(0) if self.errors else name)

        return operation


class PersisterBench:
    def __init__(self, *errors, made=None):
        self.timers = Timers()
        self.now_ms = 0
        self.coordinator = FailingCoordinator(*errors)
        self.ensured = []

        def ensure(topic, done):
            self.ensured.append(topic)
            done(made)

        coordinator = cast("ShareCoordinator", self.coordinator)
        self.persister = LocalPersister(coordinator, ensure, self.timers, lambda: self.now_ms)
        self.outcomes = []

    def advance(self, until_ms=10_000):
        for self.now_ms in range(0, until_ms, 50):
            self.timers.fire(self.now_ms)
        return self.outcomes


WRITE = Write(0, 0, 0, 0, ())


@pytest.mark.parametrize(
    ("name", "args"),
    [("initialize", (1, 2)), ("read", (3,)), ("write", (WRITE,)), ("delete", ()), ("summary", ())],
)
def test_operations_reach_the_coordinator(name, args):
    bench = PersisterBench(LOADING)
    getattr(bench.persister, name)(KEY, *args, bench.outcomes.append)
    assert (bench.advance(), bench.ensured) == ([name], ["__share_group_state"] * 2)
    assert bench.coordinator.asked == [(name, KEY, *args)] * 2


def test_errors_that_do_not_pass_are_passed_on():
    bench = PersisterBench(StateRefused(ErrorCode.FENCED_STATE_EPOCH, "why"))
    bench.persister.delete(KEY, bench.outcomes.append)
    (error,) = bench.advance()
    assert (error.code, error.detail) == (ErrorCode.FENCED_STATE_EPOCH, "Error in delete state RPC. why")


def test_attempts_come_to_an_end():
    bench = PersisterBench(*[LOADING] * 9)
    bench.persister.read(KEY, 0, bench.outcomes.append)
    (error,) = bench.advance()
    assert len(bench.coordinator.asked) == 6
    assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert error.detail == "Error in read state RPC. Exhausted max retries to complete read state RPC without success."


def test_the_topic_cannot_be_created():
    bench = PersisterBench(made=BrokerError(ErrorCode.POLICY_VIOLATION, "no room"))
    bench.persister.summary(KEY, bench.outcomes.append)
    (error,) = bench.advance()
    assert (error.code, bench.coordinator.asked) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
