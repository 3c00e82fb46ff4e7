"""A coordinator's partition answers every request and, after any trouble, behaves like a newly loaded one.

Goal: whenever an operation runs, the shard's state matches the log. The reply to a write is sent once the write is
committed, in order, and no request waits longer than promised. A slow or failing log, unloading and timers leave no
trace.

Method: run stories of requests, transactions, timers and trouble, and after each step compare the shard with a replay
of the whole log. Then end the trouble, load another partition from a copy of the log, and let both run one more story.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.coordinators.partition import COMMIT_TIMEOUT_MS, CoordinatorPartition, PartitionState
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, Result
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import MemoryLog, record
from tests.reference_broker.coordinators.holding_shard import HoldingShard, replayed
from tests.sdk.stories import Kinds, Step, run_stories, steps

NAMES = st.sampled_from("ab")
PRODUCERS = st.sampled_from([7, 8])
NUMBERS = st.integers(1, 5)

REQUESTS: Kinds = {
    "add": (NAMES, NUMBERS),
    "get": (NAMES,),
    "delete": (NAMES,),
    "refuse": (),
    "set in transaction": (NAMES, NUMBERS, PRODUCERS),
    "end": (PRODUCERS, st.booleans()),
    "set later": (NAMES, NUMBERS, st.sampled_from([0, 100, 6_000])),
}
TROUBLE: Kinds = {
    "trouble": (st.sampled_from(["hold", "hold", "lag", "fail", "unload"]),),
    "relief": (st.sampled_from(["release", "commit", "mend"]),),
    "pass": (st.sampled_from([1, 100, COMMIT_TIMEOUT_MS - 1, COMMIT_TIMEOUT_MS]),),
    "jump": (st.sampled_from([-10_000, 10_000]),),
}


class Scene:
    """A partition with its log and its requests.

    Attributes:
        answers: the replies to each request; an error is represented by its code.
    """

    def __init__(self, log: MemoryLog, now_ms: int) -> None:
        self.log = log
        self.now_ms = self.lived_ms = now_ms
        self.timers = Timers()
        self.answers: list[list[Any]] = []
        self._asked_ms: list[int] = []
        self.load()

    def load(self) -> None:
        self.partition = CoordinatorPartition("topic-0", self.log, self.timers, HoldingShard)
        self.partition.load(self.now_ms)
        while self.partition.state is PartitionState.LOADING:
            self.partition.load_slice(self.now_ms)
        assert self.partition.state is PartitionState.ACTIVE

    def act(self, step: Step) -> None:
        name, *arguments = step
        name, *arguments = arguments if name in ("trouble", "relief") else step
        getattr(self, name.replace(" ", "_").replace("pass", "let_pass"))(*arguments)
        self.check()

    def check(self) -> None:
        partition = self.partition
        if partition.state is PartitionState.ACTIVE and not partition.is_appending:
            assert partition.shard.state == replayed(self.log.batches)
        for answers, asked_ms in zip(self.answers, self._asked_ms, strict=True):
            assert len(answers) <= 1
            assert answers or self.lived_ms < asked_ms + COMMIT_TIMEOUT_MS, "a request has waited too long"

    # Requests.

    def _ask(self, operation: Callable[[HoldingShard], Result[Any]], written: CoordinatorRecord | None = None) -> None:
        answers: list[Any] = []
        seen_to: list[int] = []

        def done(reply: object) -> None:
            answers.append(reply.code if isinstance(reply, BrokerError) else reply)
            if not isinstance(reply, BrokerError):
                assert seen_to[0] <= self.log.high_watermark, "the reply depends on something that may still be lost"
                assert written is None or self._is_committed(written), "the request's records may still be lost"

        def checked(shard: HoldingShard) -> Result[Any]:
            seen_to.append(self.log.next_offset)
            assert shard.state == replayed(self.log.batches)
            return operation(shard)

        self.answers.append(answers)
        self._asked_ms.append(self.lived_ms)
        self.partition.submit(checked, done, self.now_ms)

    def _is_committed(self, written: CoordinatorRecord) -> bool:
        committed = [batch for batch in self.log.batches if batch.next_offset <= self.log.high_watermark]
        return any(encode(written) in batch.records for batch in committed)

    def add(self, name: str, number: int) -> None:
        self._ask(lambda shard: shard.add(name, number))

    def get(self, name: str) -> None:
        self._ask(lambda shard: shard.get(name))

    def delete(self, name: str) -> None:
        gone = record(name, None)
        self._ask(lambda shard: Result(name, [gone]), gone)

    def refuse(self) -> None:
        self._ask(lambda shard: shard.add("a", -1))

    def set_in_transaction(self, name: str, number: int, producer_id: int) -> None:
        self._ask(lambda shard: shard.add_in_transaction(name, number, producer_id), record(name, number))

    def end(self, producer_id: int, is_commit: bool) -> None:
        self._ask(lambda shard: shard.end(producer_id, is_commit))

    def set_later(self, name: str, number: int, delay_ms: int) -> None:
        deadline_ms = self.now_ms + delay_ms  # according to the current clock, no matter when the operation runs
        self._ask(lambda shard: shard.add_later(name, number, deadline_ms))

    # Trouble.

    def hold(self) -> None:
        if self.log.held is None:
            self.log.held = []

    def release(self) -> None:
        if self.log.held:
            self.log.release()

    def lag(self) -> None:
        self.log.is_committed = False

    def commit(self) -> None:
        self.log.commit(self.log.next_offset)

    def fail(self) -> None:
        self.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "for a while")

    def mend(self) -> None:
        self.log.error = None

    def let_pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.lived_ms += milliseconds
        self.timers.fire(self.now_ms)

    def jump(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.shift(milliseconds)

    def unload(self) -> None:
        """Unload the partition, and load it again as soon as the log reports the outcome of the last append."""
        if self.partition.state is PartitionState.ACTIVE and self.log.error is None:
            self.partition.close()
            assert all(self.answers), "a request is waiting for an unloaded partition"
            self.partition.when_appended(self._load_unless_failing)

    def _load_unless_failing(self) -> None:
        self.mend()
        self.load()

    def end_of_trouble(self) -> None:
        """Let the log work until every request is answered."""
        self.mend()
        while self.log.held:
            self.release()
        self.log.held, self.log.is_committed = None, True
        self.commit()
        assert all(self.answers), "a request is unanswered, although nothing is left to wait for"
        self.let_pass(2 * COMMIT_TIMEOUT_MS)  # also long enough for its timers
        self.check()
        assert self.partition.state is PartitionState.ACTIVE


@run_stories(200)
@given(steps(REQUESTS | TROUBLE, longest=30), steps(REQUESTS, longest=8))
def test_a_partition_that_has_recovered_behaves_like_a_new_one(story: list[Step], epilogue: list[Step]) -> None:
    old = Scene(MemoryLog(), 0)
    for step in story:
        old.act(step)
    old.end_of_trouble()
    copy = MemoryLog()
    copy.batches = list(old.log.batches)
    copy.next_offset = copy.high_watermark = old.log.next_offset
    new = Scene(copy, old.now_ms)
    assert new.partition.shard.state == old.partition.shard.state
    old.answers.clear()
    old._asked_ms.clear()
    stored = len(copy.batches)
    for step in [*epilogue, ("pass", 6_000)]:
        old.act(step)
        new.act(step)
        assert (old.answers, old.log.batches) == (new.answers, new.log.batches), step
    written = [entry for batch in copy.batches[stored:] for entry in batch.records]
    assert all(encode(record(*step[1:3])) in written for step in epilogue if step[0] == "set later")
