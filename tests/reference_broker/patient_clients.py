"""Clients that survive faults by retrying requests as real clients do.

A client's program is a generator: it yields a request and is sent the response, or yields a number of milliseconds to
wait. `Driver` runs several programs at once, and detects requests that are never answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.produced_batches import produced

__all__ = [
    "Client",
    "Clients",
    "Committer",
    "Driver",
    "Given",
    "Program",
    "Writer",
    "produce_code",
    "produce_request",
]

#: A client yields a request with its version, or a number of milliseconds to wait. It is sent the response, or the
#: current time after the wait.
Program = Generator[tuple[Message, int | None] | int, Any, None]

#: The number of attempts for a request, and the pause between them.
_TRIES = 4
_PAUSE_MS = 200

#: The number of attempts while the previous transaction is being completed: markers are retried after up to 5 s.
_CONCURRENT_TRIES = 40

#: The longest time that a request may remain unanswered once all background work is done.
_ANSWER_MS = 20_000

#: Error codes that a failing disk may cause; the client sends the same request again.
_RETRIABLE = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

_IDEMPOTENT = 12


class Driver:
    """Runs clients against a broker.

    Args:
        bench: the broker.
        settle: runs some of the background work, or all of it.
    """

    def __init__(self, bench: BrokerBench, settle: Callable[[bool], None] = lambda is_all: None) -> None:
        self.bench = bench
        self._settle = settle

    def run(self, *programs: Program) -> None:
        """Run programs concurrently until all are done."""
        ready: deque[tuple[Program, Any]] = deque((program, None) for program in programs)
        asleep: list[tuple[int, Program]] = []
        pending: set[Program] = set()
        while ready or pending or asleep:
            while ready:
                self._step(*ready.popleft(), ready, asleep, pending)
            self._settle(False)
            if ready or not (pending or asleep):
                continue
            self._wait(ready, asleep, pending)

    def _wait(
        self, ready: deque[tuple[Program, Any]], asleep: list[tuple[int, Program]], pending: set[Program]
    ) -> None:
        """Let time pass until a client can continue."""
        bench = self.bench
        began_ms = bench.now_ms
        self._settle(True)
        while not ready:
            for entry in [entry for entry in asleep if entry[0] <= bench.now_ms]:
                asleep.remove(entry)
                ready.append((entry[1], bench.now_ms))
            if ready:
                return
            assert bench.now_ms - began_ms <= _ANSWER_MS, f"there was no response to {pending}"
            bench.advance(_PAUSE_MS)
            self._settle(True)

    def _step(
        self,
        program: Program,
        value: Any,
        ready: deque[tuple[Program, Any]],
        asleep: list[tuple[int, Program]],
        pending: set[Program],
    ) -> None:
        try:
            asked = program.send(value)
        except StopIteration:
            return
        if isinstance(asked, int):
            asleep.append((self.bench.now_ms + asked, program))
            return
        response = self.bench.ask(*asked)
        if not isinstance(response, DelayedOperation):
            ready.append((program, response))
            return
        pending.add(program)
        version = asked[1]

        def answered(late: Message) -> None:
            pending.discard(program)
            ready.append((program, late if version is None else self.bench.through(late, version)))

        response.then(answered)

    def wait(self, milliseconds: int) -> None:
        """Let time pass in steps, and perform work as it becomes due."""
        end_ms = self.bench.now_ms + milliseconds
        while self.bench.now_ms < end_ms:
            self.bench.advance(min(1_000, end_ms - self.bench.now_ms))
            for _ in range(4):
                self._settle(False)


class Given(NamedTuple):
    """The ids and epochs of producers; each pair may be assigned only once."""

    producer_id: int
    epoch: int


class Clients:
    """The state that all clients share.

    Attributes:
        given: every producer id and epoch that the broker has assigned.
        ids: the client that holds each producer id.
        is_strict: whether requests must no longer fail.
    """

    def __init__(self) -> None:
        self.given: set[Given] = set()
        self.ids: dict[int, object] = {}
        self.is_strict = False

    def take(self, owner: object, producer: Given) -> None:
        """Record a producer's id and epoch."""
        assert producer not in self.given, f"{producer} was assigned twice"
        assert self.ids.setdefault(producer.producer_id, owner) == owner, f"{producer} has two owners"
        self.given.add(producer)


class Client:
    """A client.

    Attributes:
        shared: see `Clients`.
        is_stuck: whether the client has given up until the broker restarts.
        error: the error because of which the client has given up.
    """

    def __init__(self, shared: Clients) -> None:
        self.shared = shared
        self.is_stuck = False
        self.error = ErrorCode.NONE

    def ask(
        self, request: Message, version: int | None, code_of: Callable[[Any], int]
    ) -> Generator[tuple[Message, int | None] | int, Any, Any]:
        """Retry a request while the error is transient; return the response, or None if no attempts are left."""
        tries = 0
        while True:
            response = yield request, version
            self.error = ErrorCode(code_of(response))
            if self.error not in _RETRIABLE:
                return response
            tries += 1
            if tries >= (_CONCURRENT_TRIES if self.error is ErrorCode.CONCURRENT_TRANSACTIONS else _TRIES):
                self.give_up()
                return None
            yield _PAUSE_MS

    def give_up(self) -> None:
        """Do nothing until the broker restarts."""
        assert not self.shared.is_strict, f"{self}: {self.error.name}"
        self.is_stuck = True


def produce_request(
    topic: str, batch: bytes | bytearray, transactional_id: str | None = None, partition: int = 0
) -> ProduceRequest:
    """Return a request with one batch."""
    data = ProduceRequest.TopicProduceData(topic)
    data.partition_data = [ProduceRequest.PartitionProduceData(partition, batch)]
    return ProduceRequest(transactional_id, -1, 1000, [data])


def produce_code(response: Any) -> int:
    """Return the error code of a response to `produce_request`."""
    return int(response.responses[0].partition_responses[0].error_code)


class Writer(Client):
    """An idempotent producer of numbers: if number n is not at offset n, a record is lost, duplicated or out of order.

    Args:
        shared: see `Clients`.
        topic: the topic that it writes to.

    Attributes:
        sent: the number of numbers that have been sent.
        acknowledged: the numbers that have been acknowledged.
        times: the time when each number was sent.
    """

    def __init__(self, shared: Clients, topic: str) -> None:
        super().__init__(shared)
        self.topic = topic
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.times: list[int] = []
        self.producer: Given | None = None

    def __str__(self) -> str:
        return f"the writer of {self.topic}"

    def begin(self) -> Program:
        """Get a producer id."""
        response = yield from self.ask(InitProducerIdRequest(None, 60_000), None, lambda found: found.error_code)
        if response is not None:
            assert not response.error_code, response
            self.producer = Given(response.producer_id, response.producer_epoch)
            self.shared.take(self, self.producer)

    def write(self, now_ms: int) -> Program:
        """Send the next number until it is acknowledged."""
        if self.is_stuck:
            return
        number = self.sent
        self.sent += 1
        self.times.append(now_ms)
        yield from self._deliver(number)

    def recover(self) -> Program:
        """Resend the unacknowledged numbers."""
        self.is_stuck = False
        if self.producer is None:
            yield from self.begin()
        for number in range(self.sent):
            if number not in self.acknowledged and not self.is_stuck:
                yield from self._deliver(number)

    def batch(self, value: bytes, sequence: int, now_ms: int) -> bytearray:
        """Return a batch from this producer."""
        assert self.producer is not None
        return produced(
            value,
            timestamps=(now_ms,),
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
        )

    def _deliver(self, number: int) -> Program:
        if self.producer is None:
            self.give_up()
            return
        request = produce_request(self.topic, self.batch(b"%d" % number, number, self.times[number]))
        response = yield from self.ask(request, _IDEMPOTENT, produce_code)
        if response is None:
            return
        assert self.error is ErrorCode.NONE, f"{self}: record {number} was refused: {self.error.name}"
        offset = response.responses[0].partition_responses[0].base_offset
        assert offset == number, f"{self}: record {number} is at offset {offset}"
        self.acknowledged.add(number)

    def skip(self, now_ms: int) -> Program:
        """Send a batch after a gap in the sequence numbers, which the broker has to refuse."""
        if self.producer is None or not self.acknowledged:
            return
        batch = self.batch(b"refused", self.sent + 10, now_ms)
        response = yield produce_request(self.topic, batch), _IDEMPOTENT
        assert produce_code(response), "a batch after a gap was stored"


class Committer(Client):
    """A group whose offset only increases.

    Args:
        shared: see `Clients`.
        topic: the topic of the offset.
    """

    group_id = "committer"

    def __init__(self, shared: Clients, topic: str) -> None:
        super().__init__(shared)
        self.topic = topic
        self.sent = 0
        self.acknowledged = 0

    def __str__(self) -> str:
        return "the committer"

    def commit(self) -> Program:
        """Commit the next offset."""
        if self.is_stuck:
            return
        self.sent += 1
        Topic, Place = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
        topic = Topic(self.topic, partitions=[Place(0, self.sent)])
        request = OffsetCommitRequest(self.group_id, -1, "", topics=[topic])
        response = yield from self.ask(request, 8, lambda found: found.topics[0].partitions[0].error_code)
        if response is not None:
            assert self.error is ErrorCode.NONE, f"a commit was refused: {self.error.name}"
            self.acknowledged = self.sent

    def recover(self) -> Program:
        """Commit the next offset after a failure."""
        self.is_stuck = False
        yield from self.commit()
