"""After any elections, resignations and late loads, a partition behaves like that of a new coordinator.

Goal: a partition is served exactly while its broker leads it, and no one else appends to its log. A resignation answers
all waiting requests. The served state matches the log, even if other brokers have written or truncated it in the
meantime, and once everything is loaded, the old coordinator is indistinguishable from a new one with the same logs.

Method: run stories of elections and resignations (including old and repeated ones), requests, timers, and slow or
failing logs, on two partitions. A model knows who leads. After each step, compare the state with a replay of the logs.
Then let both coordinators, the old one and a new one with copies of the logs, run one more story.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS, PartitionState
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.runtime import CoordinatorRuntime
from kafkawire.reference_broker.coordinators.shard import Result, ShardTimers
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import MemoryLog, StoredBatch, record
from tests.reference_broker.coordinators.holding_shard import HoldingShard, replayed
from tests.sdk.stories import Kinds, Step, run_stories, steps

PARTITIONS = (0, 1)

NUMBERS = st.sampled_from(PARTITIONS)
NAMES = st.sampled_from("ab")
VALUES = st.integers(1, 5)
PRODUCERS = st.sampled_from([7, 8])

REQUESTS: Kinds = {
    "add": (NUMBERS, NAMES, VALUES),
    "get": (NUMBERS, NAMES),
    "set in transaction": (NUMBERS, NAMES, VALUES, PRODUCERS),
    "end": (NUMBERS, PRODUCERS, st.booleans()),
    "set later": (NUMBERS, NAMES, VALUES, st.sampled_from([0, 100, 6_000])),
}
ROLES: Kinds = {
    "elect": (NUMBERS, st.integers(1, 2)),
    "elect again": (NUMBERS, st.integers(0, 2)),
    "resign": (NUMBERS, st.integers(0, 1), st.booleans()),
    "resign during an append": (NUMBERS, NAMES, VALUES),
    "resign again": (NUMBERS, st.integers(1, 2)),
    "delete": (NUMBERS,),
    "be written by another": (NUMBERS, NAMES, VALUES, st.sampled_from([None, None, 7])),
    "be ended by another": (NUMBERS, PRODUCERS, st.booleans()),
    "be truncated by another": (NUMBERS,),
}
TROUBLE: Kinds = {
    "hold": (NUMBERS,),
    "release": (NUMBERS,),
    "lag": (NUMBERS,),
    "commit": (NUMBERS,),
    "fail": (NUMBERS, st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])),
    "mend": (NUMBERS,),
    "pass": (st.sampled_from([0, 0, 1, 100, COMMIT_TIMEOUT_MS]),),
    "jump": (st.sampled_from([-10_000, 10_000]),),
}


class LedLog(MemoryLog):
    """A log to which only its leader's coordinator may append.

    Attributes:
        is_led: whether the coordinator's broker leads the partition.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_led = False

    def _append(self, batch: StoredBatch, done: Callable[[int | BrokerError], None]) -> None:
        assert self.is_led, "the coordinator appended to a log that it does not lead"
        super()._append(batch, done)

    def end_waiting(self) -> None:
        """Fail waiting operations, since another broker is the leader."""
        error, self.error = self.error, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        watchers, self._watchers = self._watchers, []
        for _, reached in watchers:
            reached(self.error)
        while self.held:
            self.release()
        self.error = error

    def put(self, batch: StoredBatch) -> None:
        """Append another leader's batch."""
        self.batches.append(batch._replace(base_offset=self.next_offset))
        self.next_offset = self.batches[-1].next_offset
        self.high_watermark = self.next_offset

    def truncate(self) -> None:
        """Drop uncommitted batches."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= self.high_watermark]
        self.next_offset = self.high_watermark

    def copied(self) -> LedLog:
        """Return a log with the same batches."""
        copy = LedLog()
        copy.batches = list(self.batches)
        copy.next_offset = copy.high_watermark = self.next_offset
        return copy


class EndingShard(HoldingShard):
    """A shard that must do nothing after its end."""

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        assert "unloaded" not in self.calls, "a timer fired after the resignation"
        return super().fire(action, now_ms)


def new_shard(number: int, timers: ShardTimers) -> EndingShard:
    """Return the shard of a partition."""
    return EndingShard(timers)


class Scene:
    """A coordinator, the logs of its partitions, and the model of their leadership.

    Attributes:
        answers: the replies to each request; an error is represented by its code.
    """

    def __init__(self, logs: list[LedLog], now_ms: int) -> None:
        self.logs = logs
        self.now_ms = now_ms
        self.timers = Timers()
        self.epochs = [0 for _ in logs]
        self.answers: list[list[Any]] = []
        self._asked_of: list[int] = []
        self.runtime = CoordinatorRuntime("topic", self.timers, new_shard, lambda: len(logs))

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, name.replace(" ", "_").replace("pass", "let_pass"))(*arguments)
        self.check()

    def check(self) -> None:
        for number, partition in self.runtime._partitions.items():
            assert self.logs[number].is_led
            if partition.state is PartitionState.ACTIVE and not partition.is_appending:
                assert partition.shard.state == replayed(self.logs[number].batches)
        assert all(len(answers) <= 1 for answers in self.answers)
        for number, answers in zip(self._asked_of, self.answers, strict=True):
            assert answers or self.logs[number].is_led, "a request is waiting in vain for another broker's partition"

    # Roles.

    def elect(self, number: int, later: int) -> None:
        self.epochs[number] += later
        self._elect(number, self.epochs[number])

    def elect_again(self, number: int, earlier: int) -> None:
        before = self.runtime._partitions.get(number)
        if self.epochs[number]:
            self.runtime.elected(number, LedLog(), self.epochs[number] - earlier, self.now_ms)
            assert self.runtime._partitions.get(number) is before, "an old election had an effect"

    def _elect(self, number: int, epoch: int) -> None:
        self.logs[number].is_led = True
        self.runtime.elected(number, self.logs[number], epoch, self.now_ms)

    def resign(self, number: int, later: int, is_late: bool) -> None:
        """Resign; appends under way are refused or reach the log late."""
        self.epochs[number] += later
        self.runtime.resigned(number, self.epochs[number])
        self._follow(number, is_late=is_late)

    def resign_during_an_append(self, number: int, name: str, value: int) -> None:
        """Resign while an append is under way, and be elected again."""
        self.hold(number)
        self.add(number, name, value)
        self.resign(number, 1, is_late=True)
        self.elect(number, 1)

    def resign_again(self, number: int, earlier: int) -> None:
        before = self.runtime._partitions.get(number)
        if self.epochs[number]:
            self.runtime.resigned(number, self.epochs[number] - earlier)
            assert self.runtime._partitions.get(number) is before, "an old resignation had an effect"

    def delete(self, number: int) -> None:
        self.runtime.resigned(number)
        self._follow(number)
        self.logs[number], self.epochs[number] = LedLog(), 0

    def _follow(self, number: int, *, is_late: bool = False) -> None:
        self.logs[number].is_led = False
        waiting = [each for of, each in zip(self._asked_of, self.answers, strict=True) if of == number and not each]
        assert not waiting, "a resignation left requests unanswered"
        if not is_late:
            self.logs[number].end_waiting()

    def be_written_by_another(self, number: int, name: str, value: int, producer_id: int | None) -> None:
        if not self.logs[number].is_led:
            transaction = HoldingShard.add_in_transaction(HoldingShard(None), name, value, producer_id or 0).transaction
            found = StoredBatch(0, [encode(record(name, value))], None if producer_id is None else transaction)
            self.logs[number].put(found)

    def be_ended_by_another(self, number: int, producer_id: int, is_commit: bool) -> None:
        if not self.logs[number].is_led:
            self.logs[number].put(StoredBatch(0, marker=Marker(producer_id, 0, is_commit, 0)))

    def be_truncated_by_another(self, number: int) -> None:
        if not self.logs[number].is_led:
            self.logs[number].truncate()

    # Requests.

    def _ask(self, number: int, operation: Callable[[HoldingShard], Result[Any]]) -> None:
        answers: list[Any] = []
        partition = self.runtime._partitions.get(number)
        state = PartitionState.CLOSED if partition is None else partition.state

        def done(reply: object) -> None:
            answers.append(reply.code if isinstance(reply, BrokerError) else reply)

        self.answers.append(answers)
        self._asked_of.append(number)
        self.runtime.submit_to(number, operation, done, self.now_ms)
        if state is PartitionState.LOADING:
            assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        elif state is PartitionState.CLOSED:
            assert answers == [ErrorCode.NOT_COORDINATOR]

    def add(self, number: int, name: str, value: int) -> None:
        self._ask(number, lambda shard: shard.add(name, value))

    def get(self, number: int, name: str) -> None:
        self._ask(number, lambda shard: shard.get(name))

    def set_in_transaction(self, number: int, name: str, value: int, producer_id: int) -> None:
        self._ask(number, lambda shard: shard.add_in_transaction(name, value, producer_id))

    def end(self, number: int, producer_id: int, is_commit: bool) -> None:
        self._ask(number, lambda shard: shard.end(producer_id, is_commit))

    def set_later(self, number: int, name: str, value: int, delay_ms: int) -> None:
        deadline_ms = self.now_ms + delay_ms
        self._ask(number, lambda shard: shard.add_later(name, value, deadline_ms))

    # Trouble.

    def hold(self, number: int) -> None:
        if self.logs[number].held is None:
            self.logs[number].held = []

    def release(self, number: int) -> None:
        if self.logs[number].held:
            self.logs[number].release()

    def lag(self, number: int) -> None:
        self.logs[number].is_committed = False

    def commit(self, number: int) -> None:
        self.logs[number].commit(self.logs[number].next_offset)

    def fail(self, number: int, code: ErrorCode) -> None:
        """Let appends and reads fail for a while; a load retries its reads."""
        self.logs[number].error = BrokerError(code, "for a while")

    def mend(self, number: int) -> None:
        self.logs[number].error = None

    def let_pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)

    def jump(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.shift(milliseconds)

    def end_of_trouble(self) -> None:
        """Let the logs work, and be elected for all partitions."""
        for number, log in enumerate(self.logs):
            log.error = None
            while log.held:
                log.release()
            log.held, log.is_committed = None, True
            self.commit(number)
            self.elect(number, 1)
        while self.runtime.is_loading:
            self.let_pass(100)
        assert all(self.answers), "a request is unanswered, although nothing is left to wait for"
        self.let_pass(2 * COMMIT_TIMEOUT_MS)  # also long enough for the shards' timers
        self.check()


def end_of(story: list[Step], epilogue: list[Step]) -> None:
    """Run a story, and compare its coordinator with a new one during one more story."""
    old = Scene([LedLog() for _ in PARTITIONS], 0)
    for step in story:
        old.act(step)
    old.end_of_trouble()
    new = Scene([log.copied() for log in old.logs], old.now_ms)
    new.end_of_trouble()
    old.let_pass(new.now_ms - old.now_ms)
    assert [shard.state for shard in new.runtime.shards()] == [
        old.runtime._partitions[number].shard.state for number in new.runtime.numbers()
    ]
    old.answers.clear()
    old._asked_of.clear()
    for step in [*epilogue, ("pass", 6_000)]:
        old.act(step)
        new.act(step)
        assert old.answers == new.answers, step
        assert [log.batches for log in old.logs] == [log.batches for log in new.logs], step
    assert all(old.answers)


@run_stories(30)
@given(steps(ROLES | REQUESTS | TROUBLE, longest=40), steps(REQUESTS, longest=6))
def test_a_coordinator_that_has_recovered_behaves_like_a_new_one(story: list[Step], epilogue: list[Step]) -> None:
    end_of(story, epilogue)


@pytest.mark.thorough
@run_stories(1_000)
@given(steps(ROLES | REQUESTS | TROUBLE, longest=80), steps(REQUESTS, longest=12))
def test_long_stories(story: list[Step], epilogue: list[Step]) -> None:
    end_of(story, epilogue)
