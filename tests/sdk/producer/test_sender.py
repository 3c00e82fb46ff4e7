"""Batches reach the leader of their partition, once and in order, and each delivery is settled by its deadline.

Method: the producer's machines beside simulated brokers that check sequence numbers as Apache Kafka does, on a clock of
their own; faults are planted one by one, and by seed.
"""

from __future__ import annotations

import logging
from collections import Counter
from random import Random
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, ConnectionLost, DeliveryTimedOut, RemoteProtocolError
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from tests.sdk.client.simulation import SILENT, Silent, topic_id
from tests.sdk.producer.simulated import SimulatedProducer, chance, outcome_of

#: A delivery is settled so long after `delivery_timeout_ms` at the latest.
GRACE_MS = 100

LATE = ErrorCode.NOT_ENOUGH_REPLICAS


def refused(code: ErrorCode, *, times: int = 1) -> Any:
    """Return a check of a broker that refuses so many batches."""
    left = [code] * times
    return lambda topic, number, batch: left.pop() if left else 0


def test_records_are_stored_in_order_with_sequence_numbers() -> None:
    producer = SimulatedProducer(batch_size=200)
    deliveries = [producer.send("t", b"%03d" % number, timestamp_ms=5) for number in range(100)]
    producer.run(100)
    assert producer.values() == [b"%03d" % number for number in range(100)]
    assert [outcome_of(each) for each in deliveries] == [RecordMetadata("t", 0, n, 5) for n in range(100)]
    batches = [batch for _, _, _, batch in producer.produced]
    assert len(batches) > 5
    assert {(batch.producer_id, batch.producer_epoch) for batch in batches} == {(7, 0)}
    sequences = [batch.base_sequence for batch in batches]
    assert sequences == [sum(batch.records_count for batch in batches[:place]) for place in range(len(batches))]
    assert producer.accumulator.bytes_held == 0


def test_a_batch_lingers_unless_it_is_full_or_flushed() -> None:
    producer = SimulatedProducer(linger_ms=500, batch_size=300)
    producer.learn()
    producer.produced.clear()
    start_ms = producer.simulation.now_ms
    producer.send("t", b"a")
    producer.run(499)
    assert not producer.produced
    producer.run(10)
    assert [time - start_ms for time, *_ in producer.produced] == [500]
    producer.send("t", b"b")
    promise = producer.flush()
    producer.run(5)
    assert promise.done
    for _ in range(10):
        producer.send("t", b"x" * 50)
    producer.run(5)
    assert len(producer.produced) >= 3, "full batches do not linger"


def test_batches_of_one_leader_share_requests_and_none_starves() -> None:
    producer = SimulatedProducer({"t": [1, 2] * 20}, batch_size=1024, max_request_size=4096, linger_ms=0)
    producer.learn()
    for _ in range(20):
        for number in range(40):
            producer.send("t", b"x" * 200, partition=number)
    producer.run(1_000)
    assert {number: len(producer.values("t", number)) for number in range(40)} == dict.fromkeys(range(40), 20)
    requests = producer.simulation.requests(ProduceRequest, 1)
    sizes = [sum(len(data.records) for topic in each.topic_data for data in topic.partition_data) for each in requests]
    assert max(sizes) <= 4096
    assert len(requests) < 20 * 20


def test_at_most_so_many_requests_are_in_flight() -> None:
    producer = SimulatedProducer(batch_size=128, max_in_flight=3, linger_ms=0)
    producer.learn()
    producer.produced.clear()
    producer.simulation.latency_ms = 50
    for _ in range(10):
        producer.send("t", b"x" * 100)
    producer.run(49)
    assert len(producer.produced) == 3
    producer.run(1_000)
    assert producer.values() == [b"x" * 100] * 10


@pytest.mark.parametrize("idempotence", [None, False])
def test_retried_batches_keep_their_order(idempotence: bool | None) -> None:
    producer = SimulatedProducer(batch_size=128, linger_ms=0, enable_idempotence=idempotence, max_in_flight=1)
    producer.refuse = refused(LATE, times=4)
    values = [b"%03d" % number + b"x" * 90 for number in range(20)]
    for value in values:
        producer.send("t", value)
    producer.run(30_000)
    assert producer.values() == values


def test_five_in_flight_stay_in_order_when_the_first_is_refused() -> None:
    producer = SimulatedProducer(batch_size=128, linger_ms=0)
    producer.learn()
    first = [LATE]
    producer.refuse = lambda topic, number, batch: first.pop() if first else 0
    values = [b"%03d" % number + b"x" * 90 for number in range(5)]
    for value in values:
        producer.send("t", value)
    producer.run(30_000)
    assert producer.values() == values
    codes = {batch.producer_epoch for *_, batch in producer.produced}
    assert codes == {0}, "no number was missing for good"


def test_a_response_that_is_lost_stores_nothing_twice() -> None:
    producer = SimulatedProducer(linger_ms=0, request_timeout_ms=500)
    producer.learn()
    store = producer.simulation.handlers[1, ProduceRequest]
    lost = [True]

    def handle(request: ProduceRequest, version: int) -> Any:
        answer = store(request, version)
        return ConnectionLost("reset") if lost and lost.pop() else answer

    producer.simulation.handlers[1, ProduceRequest] = handle
    delivery = producer.send("t", b"once")
    producer.run(5_000)
    assert producer.values() == [b"once"]
    assert isinstance(outcome_of(delivery), RecordMetadata)


def test_an_unanswered_batch_fails_by_its_deadline_though_it_is_in_flight() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=700)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    delivery = producer.send("t", b"v")
    producer.run(699)
    assert not delivery.done
    producer.run(1 + GRACE_MS)
    error = outcome_of(delivery)
    assert isinstance(error, DeliveryTimedOut)
    assert "1 records for t-0: not acknowledged within delivery_timeout_ms=700" in str(error)
    held = producer.accumulator.bytes_held
    assert held > 0, "the request still has the memory"
    producer.run(40_000)
    assert producer.accumulator.bytes_held == 0


def test_a_batch_that_was_given_up_and_may_be_stored_raises_the_epoch() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=700, request_timeout_ms=1_000)
    producer.learn()
    store = producer.simulation.handlers[1, ProduceRequest]
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    lost = producer.send("t", b"lost")
    producer.run(2_000)
    assert isinstance(outcome_of(lost), DeliveryTimedOut)
    producer.simulation.handlers[1, ProduceRequest] = store
    assert isinstance(outcome_of(_sent(producer, b"next")), RecordMetadata)
    assert producer.values() == [b"next"]
    last = producer.produced[-1][3]
    assert (last.producer_epoch, last.base_sequence) == (1, 0)


def test_a_late_acknowledgement_saves_the_epoch() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=700)
    producer.learn()
    producer.simulation.latency_ms = 800
    late, later = producer.send("t", b"late"), None
    producer.run(10)
    later = producer.send("t", b"later")
    producer.run(5_000)
    assert isinstance(outcome_of(late), DeliveryTimedOut)
    assert isinstance(outcome_of(later), DeliveryTimedOut)
    producer.simulation.latency_ms = 1
    assert isinstance(outcome_of(_sent(producer, b"next")), RecordMetadata)
    assert producer.values() == [b"late", b"later", b"next"]


def test_a_gap_is_closed_with_the_next_epoch() -> None:
    producer = SimulatedProducer(batch_size=128, linger_ms=0)
    producer.learn()
    poison = b"poison" + b"x" * 90

    def refuse(topic: str, number: int, batch: RecordBatch) -> int:
        return ErrorCode.INVALID_RECORD if any(r.value == poison for r in batch.records()) else 0

    producer.refuse = refuse
    values = [b"%03d" % number + b"x" * 90 for number in range(4)]
    bad = producer.send("t", poison)
    good = [producer.send("t", value) for value in values]
    producer.run(5_000)
    assert isinstance(outcome_of(bad), BrokerError)
    assert [outcome_of(each) for each in good] == [
        RecordMetadata("t", 0, offset, outcome_of(each).timestamp_ms) for offset, each in enumerate(good, 1)
    ]
    assert producer.values() == values
    assert producer.produced[-1][3].producer_epoch == 1


def test_three_bad_records_do_not_delay_a_good_one() -> None:
    producer = SimulatedProducer(batch_size=128, linger_ms=0)
    producer.learn()
    producer.refuse = lambda topic, number, batch: (
        ErrorCode.INVALID_RECORD if any(r.value[:3] == b"bad" for r in batch.records()) else 0
    )
    for _ in range(3):
        producer.send("t", b"bad" + b"x" * 90)
    good = producer.send("t", b"good")
    producer.run(1_000)
    assert isinstance(outcome_of(good), RecordMetadata)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_leader_that_lost_the_numbers_gets_new_ones(code: ErrorCode) -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    store = producer.simulation.handlers[1, ProduceRequest]
    left = [True]

    def handle(request: ProduceRequest, version: int) -> Any:
        if not left:
            return store(request, version)
        left.clear()
        kind = ProduceResponse.PartitionProduceResponse
        refusal = kind(0, code, log_start_offset=0)
        return ProduceResponse([ProduceResponse.TopicProduceResponse("t", topic_id("t"), [refusal])])

    producer.simulation.handlers[1, ProduceRequest] = handle
    delivery = producer.send("t", b"v")
    producer.run(5_000)
    assert isinstance(outcome_of(delivery), RecordMetadata)
    assert producer.produced[-1][3].producer_epoch == 1


def test_a_duplicate_counts_as_stored() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.refuse = refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert outcome_of(_sent(producer, b"v", timestamp_ms=3)) == RecordMetadata("t", 0, -1, 3)


def test_too_large_a_batch_is_split_and_its_deliveries_follow() -> None:
    producer = SimulatedProducer(batch_size=4096, linger_ms=50)
    producer.learn()
    producer.max_batch_bytes = 600
    called: list[Delivery] = []
    values = [b"%02d" % number + b"x" * 100 for number in range(30)]
    deliveries = [producer.send("t", value, on_delivery=called.append) for value in values]
    promise = producer.flush()
    producer.run(5_000)
    assert promise.done
    assert producer.values() == values
    assert [outcome_of(each).offset for each in deliveries] == list(range(1, 31))
    assert Counter(map(id, called)) == Counter(map(id, deliveries))
    assert producer.accumulator.bytes_held == 0


def test_a_single_record_that_is_too_large_fails_alone() -> None:
    producer = SimulatedProducer(batch_size=4096, linger_ms=50)
    producer.learn()
    producer.max_batch_bytes = 600
    deliveries = [producer.send("t", value) for value in (b"a", b"x" * 700, b"b")]
    producer.run(5_000)
    assert producer.values() == [b"a", b"b"]
    error = outcome_of(deliveries[1])
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_moved_leader_is_followed_by_metadata() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [2]
    assert isinstance(outcome_of(_sent(producer, b"v", 2_000)), RecordMetadata)
    assert [node for _, node, _, batch in producer.produced][-2:] == [1, 2]


def test_a_leader_named_in_the_response_is_followed_at_once() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [2]
    producer.hints = True
    asked = len(producer.simulation.requests(MetadataRequest))
    start_ms = producer.simulation.now_ms
    delivery = producer.send("t", b"v")
    producer.run(20)
    assert isinstance(outcome_of(delivery), RecordMetadata)
    assert len(producer.simulation.requests(MetadataRequest)) == asked
    assert producer.produced[-1][0] - start_ms < 20, "without a pause"


def test_without_acknowledgement_a_moved_leader_is_followed_too() -> None:
    producer = SimulatedProducer(linger_ms=0, acks=0)
    producer.learn()
    producer.leaders["t"] = [2]
    producer.send("t", b"lost")
    producer.run(1)
    producer.simulation.break_connections(1)  # a broker closes the connection of who asks for no response
    producer.run(1_000)
    _sent(producer, b"v")
    assert producer.values() == [b"v"]


def test_without_acknowledgement_a_congested_connection_holds_batches_back() -> None:
    producer = SimulatedProducer(linger_ms=0, acks=0, buffer_memory=4096, batch_size=1024)
    producer.learn()
    producer.produced.clear()
    link = producer.router.reach(1, producer.simulation.now_ms)
    assert link is not None
    link.congested = True
    for _ in range(3):
        producer.send("t", b"x" * 900)
    producer.run(100)
    assert not producer.produced
    assert producer.accumulator.bytes_held > 2700
    link.congested = False
    producer.run(100)
    assert len(producer.produced) == 3


def test_a_partition_without_a_leader_delays_itself_alone() -> None:
    producer = SimulatedProducer({"t": [None, 1]}, linger_ms=0, delivery_timeout_ms=5_000)
    producer.send("t", b"x", partition=1)
    producer.run(1_000)
    stuck = producer.send("t", b"v", partition=0)
    free = producer.send("t", b"v", partition=1)
    producer.run(100)
    assert isinstance(outcome_of(free), RecordMetadata)
    assert producer.send("t", b"v").done is False
    producer.run(100)
    assert producer.values("t", 1)[-1] == b"v", "records without a key avoid it"
    producer.leaders["t"] = [2, 1]
    producer.run(3_000)
    assert isinstance(outcome_of(stuck), RecordMetadata)


def test_a_dead_broker_delays_its_partitions_alone_and_is_named() -> None:
    producer = SimulatedProducer({"t": [1, 2]}, linger_ms=0, delivery_timeout_ms=3_000)
    producer.learn()
    producer.simulation.down = {2}
    dead = producer.send("t", b"v", partition=1)
    producer.run(500)
    assert isinstance(outcome_of(_sent(producer, b"v", partition=0)), RecordMetadata)
    producer.run(3_000)
    error = outcome_of(dead)
    assert isinstance(error, DeliveryTimedOut)
    assert "cannot connect to node-2:9092: refused" in str(error)


def test_one_missing_topic_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    producer = SimulatedProducer({"t": [1]}, linger_ms=0, delivery_timeout_ms=2_000)
    with caplog.at_level(logging.WARNING, "kafkawire.producer"):
        missing = producer.send("never", b"v")
        producer.run(100)
        assert "topic never; its records wait for up to 2000 ms" in caplog.text
    assert isinstance(outcome_of(_sent(producer, b"v")), RecordMetadata)
    producer.run(800)
    assert not missing.done
    producer.run(200 + GRACE_MS)
    error = outcome_of(missing)
    assert isinstance(error, DeliveryTimedOut)
    assert str(error).startswith("topic never is not known after 2000 ms: UNKNOWN_TOPIC_OR_PARTITION")
    assert producer.router.metadata.wanted == {"t"}
    assert producer.accumulator.bytes_held == 0
    asked = len(producer.simulation.requests(MetadataRequest))
    producer.run(60_000)
    assert len(producer.simulation.requests(MetadataRequest)) - asked <= 1


def test_records_wait_for_their_topic_in_order() -> None:
    producer = SimulatedProducer({"t": [1]}, linger_ms=0)
    producer.run(100)
    deliveries = [producer.send("new", b"%d" % number) for number in range(3)]
    promise = producer.flush()
    producer.run(500)
    assert not promise.done
    producer.leaders["new"] = [1, 2]
    producer.run(2_000)
    deliveries.append(producer.send("new", b"3"))
    producer.run(100)
    assert promise.done
    (number,) = {outcome_of(each).partition for each in deliveries}
    assert producer.values("new", number) == [b"0", b"1", b"2", b"3"]


def test_new_partitions_are_used() -> None:
    producer = SimulatedProducer(metadata_max_age_ms=1_000, linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [1, 2]
    producer.run(2_000)
    assert outcome_of(_sent(producer, b"v", partition=1)).partition == 1


def test_idle_topics_are_forgotten_and_found_again() -> None:
    names = [f"t{number}" for number in range(50)]
    producer = SimulatedProducer({name: [1] for name in names}, metadata_max_idle_ms=5_000, linger_ms=0)
    producer.learn()
    assert producer.router.metadata.wanted == set(names)
    for _ in range(30):
        producer.send("t0", b"v")
        producer.run(1_000)
    assert producer.router.metadata.wanted == {"t0"}
    again = producer.send("t7", b"again")
    producer.run(1_000)
    assert isinstance(outcome_of(again), RecordMetadata)
    assert [batch.base_sequence for *_, at, batch in producer.produced if at == ("t7", 0)] == [0, 1]


def test_a_response_without_the_batch_fails_it() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: ProduceResponse([])
    error = outcome_of(_sent(producer, b"v"))
    assert isinstance(error, RemoteProtocolError)


def test_ending_the_client_settles_everything() -> None:
    producer = SimulatedProducer({"t": [1, None]}, linger_ms=10_000)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    deliveries = [
        producer.send("t", b"lingering", partition=0),
        producer.send("t", b"no leader", partition=1),
        producer.send("unknown", b"v"),
    ]
    promise = producer.flush()
    producer.run(100)
    deliveries.append(producer.send("t", b"open", partition=0))
    producer.simulation.close()
    for delivery in deliveries:
        assert isinstance(outcome_of(delivery), Closed)
    assert promise.done
    with pytest.raises(Closed):
        producer.send("t", b"v")
    with pytest.raises(Closed):
        producer.flush().wait(0)


def test_work_grows_with_what_is_ready_and_not_with_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SimulatedProducer({"t": [1 + number % 3 for number in range(10_000)]}, linger_ms=100_000)
    producer.learn()
    for number in range(10_000):
        producer.send("t", b"v", partition=number)
    producer.run(10)
    looked = 0
    place = producer.sender._place

    def counted(queue: Any, now_ms: int) -> None:
        nonlocal looked
        looked += 1
        place(queue, now_ms)

    monkeypatch.setattr(producer.sender, "_place", counted)
    for _ in range(10):
        producer.send("t", b"x" * 2**17, partition=5)
        producer.run(20)
    assert looked <= 100


@pytest.mark.parametrize("seed", range(40))
def test_each_record_is_stored_once_or_fails_by_its_deadline(seed: int) -> None:
    """Any mixture of faults: each delivery settles once, by its deadline; what succeeded is there once, in order."""
    random = Random(seed)
    timeout_ms = random.choice([1_500, 5_000, 60_000])
    producer = SimulatedProducer(
        {"t": [1, 2, 3, 1]},
        fraction=chance(seed),
        batch_size=random.choice([128, 400, 4096]),
        linger_ms=random.choice([0, 5, 50]),
        delivery_timeout_ms=timeout_ms,
        request_timeout_ms=random.choice([300, 2_000]),
        max_in_flight=random.choice([1, 5]),
        compression=random.choice(["none", "gzip"]),
    )
    producer.simulation.latency_ms = random.choice([1, 20])
    faults = _Faults(producer, random)
    settled: Counter[int] = Counter()
    sent: list[tuple[int, int, bytes, Delivery]] = []

    def note(delivery: Delivery) -> None:
        settled[id(delivery)] += 1

    for number in range(150):
        if number % 10 == 0:
            faults.happen()
        partition = random.randrange(4)
        value = b"%05d" % number + b"x" * random.choice([0, 30, 200])
        delivery = producer.send("t", value, partition=partition, on_delivery=note)
        sent.append((producer.simulation.now_ms, partition, value, delivery))
        producer.run(random.choice([0, 0, 1, 30]))
    while not all(delivery.done for *_, delivery in sent):
        late = [at for at, *_, delivery in sent if not delivery.done]
        assert producer.simulation.now_ms <= min(late) + timeout_ms + GRACE_MS
        producer.run(50)
        if random.random() < 0.1:
            faults.happen()
    faults.end()
    producer.run(120_000)
    assert set(settled.values()) == {1}
    assert producer.accumulator.bytes_held == 0
    for partition in range(4):
        stored = producer.values("t", partition)
        assert max(Counter(stored).values(), default=1) == 1, "nothing is stored twice"
        mine = [(value, delivery) for _, at, value, delivery in sent if at == partition]
        good = [value for value, delivery in mine if isinstance(outcome_of(delivery), RecordMetadata)]
        kept = set(good)
        assert [value for value in stored if value in kept] == good, "in order"
        for value, delivery in mine:
            place = outcome_of(delivery)
            if isinstance(place, RecordMetadata) and place.offset >= 0:
                assert producer.log("t", partition).values[place.offset] == value
    # It works again, whatever happened.
    assert all(isinstance(outcome_of(_sent(producer, b"end", partition=number)), RecordMetadata) for number in range(4))


class _Faults:
    """What goes wrong, by chance."""

    def __init__(self, producer: SimulatedProducer, random: Random) -> None:
        self.producer = producer
        self.random = random
        self.modes = dict.fromkeys(producer.nodes, "fine")
        for node in producer.nodes:
            store = producer.simulation.handlers[node, ProduceRequest]
            producer.simulation.handlers[node, ProduceRequest] = self._handler(node, store)

    def happen(self) -> None:
        """Change something."""
        producer, random = self.producer, self.random
        node = random.choice(producer.nodes)
        self.modes[node] = random.choice(["fine", "fine", "lost", "stored, then lost", "silent", "stored, then silent"])
        producer.simulation.down = {random.choice(producer.nodes)} if random.random() < 0.2 else set()
        if random.random() < 0.2:
            producer.simulation.break_connections(node)
        if random.random() < 0.3:
            producer.leaders["t"][random.randrange(4)] = random.choice([1, 2, 3, None])
        codes = [0, 0, 0, LATE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_RECORD]
        weights = [random.choice(codes) for _ in range(4)]
        producer.refuse = lambda topic, number, batch: random.choice(weights) if random.random() < 0.3 else 0
        producer.max_batch_bytes = random.choice([1 << 20, 1 << 20, 350])

    def end(self) -> None:
        """Have everything work from now on."""
        self.modes = dict.fromkeys(self.producer.nodes, "fine")
        self.producer.simulation.down = set()
        self.producer.leaders["t"] = [1, 2, 3, 1]
        self.producer.refuse = lambda topic, number, batch: 0
        self.producer.max_batch_bytes = 1 << 20

    def _handler(self, node: int, store: Any) -> Any:
        def handle(request: ProduceRequest, version: int) -> ProduceResponse | Exception | Silent:
            mode = self.modes[node]
            if mode != "fine" and self.random.random() < 0.3:
                self.modes[node] = "fine"
            answer: ProduceResponse = store(request, version) if mode in ("fine",) or "stored" in mode else None
            if "lost" in mode:
                return ConnectionLost("reset by peer")
            return SILENT if "silent" in mode else answer

        return handle


def _sent(
    producer: SimulatedProducer, value: bytes, duration_ms: int = 1_000, partition: int = 0, **more: Any
) -> Delivery:
    """Return the delivery of a record, settled."""
    delivery = producer.send("t", value, partition=partition, **more)
    producer.run(duration_ms)
    return delivery
