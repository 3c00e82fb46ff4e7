"""Soon after any trouble, a producer stores records again and behaves like a new one.

Goal: after the next success, a retry, an expiry, a split, a gap in the sequence numbers, a missing topic, a doomed
    transaction or a lost response leaves no trace in the sender and its schedule, the accumulator, sequences and
    identity, topics, or the state machine for transactions.

Method: run stories on a simulated clock, with brokers and a coordinator that are as strict as Kafka's. Each delivery
must be settled once and in time. Once all faults are repaired, a record for each partition must be stored promptly.
Then run one more story with a new producer and the used one, side by side: both must send the same data to the same
brokers at the same times, apart from the numbers that the cluster gives out.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.errors import ConnectionLost, KafkaWireError
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.producer.transactions.machine import State
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.producer.simulated import SimulatedProducer, outcome_of
from tests.sdk.producer.transaction_coordinator import TransactionalProducer
from tests.sdk.simulation import SILENT
from tests.sdk.stories import Kinds, Step, assert_alike, run_stories, steps

LEADERS: list[int | None] = [1, 2, 3]
#: Once all faults are repaired, the topic has another partition.
GROWN: list[int | None] = [1, 2, 3, 1]
NODES = (1, 2, 3)
DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS = 4_000, 600

#: A delivery is settled at most this long after its deadline.
GRACE_MS = 100

#: Enough for the longest pause, the end of an unanswered request, and an attempt after each.
PROMPT_MS = 3_000

#: This long after a metadata refresh, the next reason to refresh takes effect immediately.
CALM_MS = 3_000

OPTIONS: dict[str, Any] = {
    "batch_size": 300,
    "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
    "request_timeout_ms": REQUEST_TIMEOUT_MS,
}

partition_numbers = st.sampled_from(range(3))
KINDS: Kinds = {
    "break": (st.sampled_from(NODES),),
    "create": (st.booleans(),),
    "down": (st.sampled_from(NODES), st.booleans()),
    "flush": (),
    "forget": (partition_numbers,),
    "lead": (partition_numbers, st.sampled_from([1, 2, 3, None])),
    "lose": (st.sampled_from(NODES), st.sampled_from(["lost", "stored, then lost", "silent", "stored, then silent"])),
    "pass": (st.sampled_from([1, 3, 30, 200]),),
    "pass on": (st.sampled_from([1, 100, 700, 2_000, 5_000]),),
    "refuse": (
        partition_numbers,
        st.lists(
            st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE]),
            max_size=2,
        ),
    ),
    "send": (partition_numbers, st.sampled_from([1, 200])),
    "send more": (partition_numbers, st.sampled_from([1, 90])),
    "send elsewhere": (st.sampled_from(["t", "v"]), st.integers(0, 4)),
}


class Scene:
    """A producer, its brokers, and the records that it was given.

    Args:
        producer: the producer to watch.
    """

    def __init__(self, producer: SimulatedProducer) -> None:
        self.producer = producer
        self.modes: dict[int, str] = {}
        self.codes: dict[int, list[int]] = {}
        producer.refuse = self._refuse
        for node in NODES:
            store = producer.simulation.handlers[node, ProduceRequest]
            producer.simulation.handlers[node, ProduceRequest] = self._handler(node, store)
        self.open: dict[Delivery, int] = {}
        self.settled: list[tuple[int, str]] = []
        self.flushes: list[Promise[None]] = []
        self.wrong: list[str] = []  # an exception in a callback would only be logged
        self.stored: dict[str, bool] = {}
        self._values = self._seen_settled = self._seen_produced = self._seen_sent = 0

    def _refuse(self, topic: str, number: int, batch: RecordBatch) -> int:
        codes = self.codes.get(number)
        return codes.pop(0) if codes else 0

    def _handler(self, node: int, store: Any) -> Any:
        def handle(request: ProduceRequest, version: int) -> Any:
            mode = self.modes.pop(node, "fine")
            answer = store(request, version) if mode == "fine" or "stored" in mode else SILENT
            if "lost" in mode:
                return ConnectionLost("reset by peer")
            return SILENT if "silent" in mode else answer

        return handle

    def send(self, topic: str, number: int, size_bytes: int = 1) -> str:
        """Send a record."""
        self._values += 1
        label = f"{self._values}"
        now_ms = self.producer.simulation.now_ms

        def note(delivery: Delivery) -> None:
            if delivery in self.open:
                del self.open[delivery]
                self._note(label, delivery)
                self._check_accounts(delivery)

        try:
            value = label.encode() + b" " * size_bytes
            delivery = self.producer.send(topic, value, partition=number, on_delivery=note)
        except KafkaWireError as error:
            self.settled.append((now_ms, f"{label}: {type(error).__name__}"))
            return label
        if delivery.done:
            self._note(label, delivery)
        else:
            self.open[delivery] = now_ms + DELIVERY_TIMEOUT_MS + GRACE_MS
        return label

    def _check_accounts(self, delivery: Delivery) -> None:
        """Check that the record's memory is free, and any failure noted, when a callback learns of a delivery."""
        accumulator = self.producer.accumulator
        if not self.open and self.producer.sender.is_silent and accumulator.bytes_held:
            self.wrong.append("memory is held for settled records")
        if not isinstance(outcome_of(delivery), RecordMetadata) and accumulator.failed is None:
            self.wrong.append("a failure is not noted")

    def _note(self, label: str, delivery: Delivery) -> None:
        outcome = outcome_of(delivery)
        self.stored[label] = isinstance(outcome, RecordMetadata)
        code = getattr(outcome, "code", "")
        self.settled.append((self.producer.simulation.now_ms, f"{label}: {type(outcome).__name__} {code}"))

    def flush(self) -> None:
        """Flush, and check that everything sent before has been settled when the flush ends."""
        given, flush = list(self.open), self.producer.flush()

        def ended() -> None:
            if not all(delivery.done for delivery in given):
                self.wrong.append("a flush has ended before its deliveries")

        flush.add_done_callback(ended)
        self.flushes.append(flush)

    def end(self) -> None:
        """End the client, which settles everything immediately."""
        for topic in ("t", "w"):
            self.send(topic, 0)
        self.flush()
        self.producer.simulation.close()
        assert not self.open
        self.check()

    def act(self, step: Step) -> None:
        producer = self.producer
        match step:
            case ("break", node):
                producer.simulation.break_connections(node)
            case ("create", exists):
                producer.leaders.pop("v", None)
                if exists:
                    producer.leaders["v"] = [2]
            case ("down", node, True):
                producer.simulation.down.add(node)
                producer.simulation.break_connections(node)
            case ("down", node, False):
                producer.simulation.down.discard(node)
            case ("flush",):
                self.flush()
            case ("forget", number):
                producer.log("t", number).forget()
            case ("lead", number, leader):
                producer.leaders["t"][number] = leader
            case ("lose", node, mode):
                self.modes[node] = mode
            case ("pass" | "pass on", duration_ms):
                producer.run(duration_ms)
            case ("refuse", number, codes):
                self.codes[number] = list(codes)
            case ("send" | "send more", number, size_bytes):
                self.send("t", number, size_bytes)
            case ("send elsewhere", topic, number):
                self.send(topic, number)
        producer.run(0)
        self.check()

    def check(self) -> None:
        """Check that deliveries are settled in time, and that nothing is held once all of them are settled."""
        assert not self.wrong
        now_ms = self.producer.simulation.now_ms
        for deadline_ms in self.open.values():
            assert now_ms <= deadline_ms, "a delivery is late"
        if not self.open:
            assert not self.producer.sender._unsettled.items
            assert all(flush.done for flush in self.flushes)
            if self.producer.sender.is_silent:
                assert self.producer.accumulator.bytes_held == 0

    def mend(self) -> None:
        """Repair all faults, and let every delivery be settled."""
        producer = self.producer
        producer.simulation.down.clear()
        producer.leaders["t"] = list(GROWN)
        producer.leaders["v"] = [2]
        self.modes.clear()
        self.codes.clear()
        for node in NODES:  # otherwise, an unanswered request would stay in flight
            producer.simulation.break_connections(node)
        producer.run(DELIVERY_TIMEOUT_MS + GRACE_MS)
        assert not self.open
        self.check()

    def greet(self) -> None:
        """Check that a record for each partition is stored promptly."""
        labels = [self.send("t", number) for number in range(len(GROWN))] + [self.send("v", 0)]
        self.producer.run(PROMPT_MS)
        assert all(self.stored.get(label) for label in labels), "a record is not stored, although no fault is left"
        self.check()

    def settle(self) -> None:
        """Reach a state with nothing in flight and with every partition and broker known."""
        for _ in range(2):
            self.greet()
            self.producer.run(CALM_MS)
        self.news()
        self.flushes.clear()
        self._values = 0

    def news(self) -> tuple[object, ...]:
        producer = self.producer
        settled, produced = self.settled[self._seen_settled :], producer.produced[self._seen_produced :]
        sent = producer.simulation.sent[self._seen_sent :]
        self._seen_settled, self._seen_produced = len(self.settled), len(producer.produced)
        self._seen_sent = len(producer.simulation.sent)
        return (
            settled,
            [
                (at, node, place, [record.value for record in batch.records()], batch.base_sequence < 0)
                for at, node, place, batch in produced
            ],
            [(at, node, type(request).__name__) for at, node, request, _ in sent],
            [flush.done for flush in self.flushes],
            (len(self.open), producer.sender.is_silent, producer.sender.is_settled),
        )


def _later(producer: SimulatedProducer, now_ms: int) -> SimulatedProducer:
    """Set a producer's clock, and return the producer."""
    producer.simulation.now_ms = now_ms
    return producer


@given(steps(KINDS, 40), steps(KINDS, 20))
@run_stories(25)
def test_a_producer_that_has_recovered_behaves_like_a_new_one(past: list[Step], future: list[Step]) -> None:
    old = Scene(SimulatedProducer({"t": LEADERS}, **OPTIONS))
    for step in past:
        old.act(step)
    old.mend()
    new = Scene(_later(SimulatedProducer({"t": GROWN, "v": [2]}, **OPTIONS), old.producer.simulation.now_ms))
    for each in (old, new):
        each.settle()
    assert_alike(old, new, future)
    for each in (old, new):
        each.end()


REQUESTS = {
    "add offsets": AddOffsetsToTxnRequest,
    "add partitions": AddPartitionsToTxnRequest,
    "commit offsets": TxnOffsetCommitRequest,
    "end": EndTxnRequest,
}
#: Errors after which a producer tries again.
PASSING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

some_requests = st.sampled_from(sorted(REQUESTS))
TRANSACTIONS: Kinds = {
    **{name: KINDS[name] for name in ("break", "lose", "pass", "pass on", "refuse", "send", "send more")},
    "abort": (),
    "begin": (),
    "begin again": (),
    "commit": (),
    "coordinator": (st.sampled_from(NODES),),
    "hear": (some_requests,),
    "offsets": (st.integers(1, 9),),
    "out of order": (partition_numbers,),
    "pass over": (some_requests, st.lists(st.sampled_from(PASSING), min_size=1, max_size=2)),
    "silence": (some_requests,),
}


class Transactions(Scene):
    """A producer with transactions.

    Args:
        producer: the producer to watch.
    """

    def __init__(self, producer: TransactionalProducer) -> None:
        super().__init__(producer)
        self.transactional = producer
        self.promises: list[Promise[None]] = []
        self.commits: list[tuple[list[str], Promise[None]]] = []
        self.sent: list[str] = []

    def act(self, step: Step) -> None:
        producer = self.transactional
        match step:
            case ("abort",):
                self.promises.append(producer.ask(producer.machine.abort, 60_000))
            case ("begin" | "begin again",):
                self.begin()
            case ("commit",):
                self.commit()
            case ("coordinator", node):
                producer.coordinator = node
            case ("hear", requests):
                producer.lost.append(REQUESTS[requests])
            case ("offsets", offset):
                self.promises.append(producer.send_offset(offset, 0))
            case ("out of order", number):
                self.codes[number] = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
            case ("pass over", requests, codes):
                producer.refusals[REQUESTS[requests]] = list(codes)
            case ("silence", requests):
                producer.refusals[REQUESTS[requests]] = [SILENT]
        super().act(step)

    def begin(self) -> None:
        """Begin a transaction, if that is possible."""
        began = self.transactional.ask(self.transactional.machine.begin)
        self.promises.append(began)
        if not _failed(began):
            self.sent = []

    def commit(self) -> Promise[None]:
        """Commit, and check that either all the transaction's records are committed or the promise fails."""
        labels = list(self.sent)
        promise = self.transactional.ask(self.transactional.machine.commit, 60_000)
        self.promises.append(promise)
        self.commits.append((labels, promise))
        return promise

    def send(self, topic: str, number: int, size_bytes: int = 1) -> str:
        label = super().send(topic, number, size_bytes)
        if self.transactional.machine.state is State.OPEN:
            self.sent.append(label)
        return label

    def check(self) -> None:
        super().check()
        assert self.transactional.machine.error is None
        committed = {value.split()[0].decode() for value in self.transactional.all_committed()}
        for labels, promise in self.commits:
            if promise.done and not _failed(promise):
                assert set(labels) <= committed, "a commit succeeded without all records"
        self.commits = [each for each in self.commits if not each[1].done]

    def mend(self) -> None:
        producer = self.transactional
        for codes in producer.refusals.values():
            codes.clear()
        producer.lost.clear()
        producer.coordinator = 1
        ended = producer.ask(producer.machine.finish, 200_000)
        producer.run(60_000)
        assert ended.done
        super().mend()
        assert producer.machine.state is State.READY
        assert all(promise.done for promise in self.promises)

    def greet(self) -> None:
        for node in NODES:  # connects every broker
            self.transactional.coordinator = node
            self.begin()
            labels = [self.send("t", number) for number in range(len(GROWN))]
            self.transactional.send_offset(5, 0)
            promise = self.commit()
            self.producer.run(PROMPT_MS)
            assert promise.done
            assert _failed(promise) == "", "a transaction was not committed, although no fault is left"
            assert all(self.stored.get(label) for label in labels)
            self.check()
        self.transactional.coordinator = 1
        self.producer.run(CALM_MS)
        self.begin()
        self.commit()

    def settle(self) -> None:
        super().settle()
        self.promises.clear()
        self.transactional.committed.clear()

    def news(self) -> tuple[object, ...]:
        machine = self.transactional.machine
        return (
            *super().news(),
            [(promise.done, promise.done and _failed(promise)) for promise in self.promises],
            (machine.state, self.transactional.state, sorted(self.transactional.all_committed())),
        )


def _failed(promise: Promise[None]) -> str:
    """Return a failed promise's error and cause as text, which is empty if the promise has not failed."""
    try:
        promise.wait(0)
    except KafkaWireError as error:
        return f"{type(error).__name__} after {error.__cause__!r}"
    return ""


@example(2, [("begin",), ("send", 2, 1)], [])  # the topic is dropped while the producer asks for it
@given(st.sampled_from([1, 2]), steps(TRANSACTIONS, 40), steps(TRANSACTIONS, 20))
@run_stories(25)
def test_a_transactional_producer_that_has_recovered_behaves_like_a_new_one(
    version: int, past: list[Step], future: list[Step]
) -> None:
    old = Transactions(TransactionalProducer(version, **{**OPTIONS, "topics": {"t": LEADERS}}))
    for step in past:
        old.act(step)
    old.mend()
    fresh = TransactionalProducer(version, **{**OPTIONS, "topics": {"t": GROWN, "v": [2]}})
    _later(fresh, old.producer.simulation.now_ms)
    new = Transactions(fresh)
    for each in (old, new):
        each.settle()
    assert_alike(old, new, future)
