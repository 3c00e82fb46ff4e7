"""A partition's leader stores each batch once and in order; after a permanent gap, the numbers start over.

Method: run the producer's state machines with simulated brokers that check sequence numbers as Apache Kafka does; test
numbers that wrap on `Sequences` alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, ConnectionLost, DeliveryTimedOut
from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.producer.sequences import Sequences, following
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from tests.sdk.producer.simulated import SimulatedProducer, outcome_of, place_of, refused, sent
from tests.sdk.simulation import SILENT, topic_id

#: A delivery is settled at most this long after `delivery_timeout_ms`.
GRACE_MS = 100

LATE = ErrorCode.NOT_ENOUGH_REPLICAS


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
    assert codes == {0}, "no sequence number may be missing permanently"


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


def test_a_batch_that_was_given_up_and_may_be_stored_raises_the_epoch() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=700, request_timeout_ms=1_000)
    producer.learn()
    store = producer.simulation.handlers[1, ProduceRequest]
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    lost = producer.send("t", b"lost")
    producer.run(2_000)
    assert isinstance(outcome_of(lost), DeliveryTimedOut)
    producer.simulation.handlers[1, ProduceRequest] = store
    assert isinstance(outcome_of(sent(producer, b"next")), RecordMetadata)
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
    assert isinstance(outcome_of(sent(producer, b"next")), RecordMetadata)
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
        RecordMetadata("t", 0, offset, place_of(each).timestamp_ms) for offset, each in enumerate(good, 1)
    ]
    assert producer.values() == values
    assert producer.produced[-1][3].producer_epoch == 1


def test_three_bad_records_do_not_delay_a_good_one() -> None:
    producer = SimulatedProducer(batch_size=128, linger_ms=0)
    producer.learn()
    producer.refuse = lambda topic, number, batch: (
        ErrorCode.INVALID_RECORD if any((r.value or b"")[:3] == b"bad" for r in batch.records()) else 0
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
    lost = [True]

    def handle(request: ProduceRequest, version: int) -> Any:
        if not lost:
            return store(request, version)
        lost.clear()
        kind = ProduceResponse.PartitionProduceResponse
        refusal = kind(0, code, log_start_offset=0)
        return ProduceResponse([ProduceResponse.TopicProduceResponse("t", topic_id("t"), [refusal])])

    producer.simulation.handlers[1, ProduceRequest] = handle
    delivery = producer.send("t", b"v")
    producer.run(5_000)
    assert isinstance(outcome_of(delivery), RecordMetadata)
    assert producer.produced[-1][3].producer_epoch == 1


#: The effect of rejecting a batch outside transactions: whether it is eventually stored, and the next batch's epoch.
REFUSALS = {
    ErrorCode.UNKNOWN_PRODUCER_ID: (True, 0),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (True, 1),
    ErrorCode.CONCURRENT_TRANSACTIONS: (True, 0),
    ErrorCode.INVALID_PRODUCER_EPOCH: (False, 1),
    ErrorCode.PRODUCER_FENCED: (False, 1),
    ErrorCode.INVALID_TXN_STATE: (False, 1),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (False, 1),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: (False, 1),
    ErrorCode.TRANSACTION_ABORTABLE: (False, 1),
    ErrorCode.INVALID_RECORD: (False, 1),
}


@pytest.mark.parametrize(("code", "expected"), REFUSALS.items())
def test_an_idempotent_producer_goes_on_after_every_refusal(code: ErrorCode, expected: tuple[bool, int]) -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.refuse = refused(code)
    outcome = outcome_of(sent(producer, b"refused", 5_000))
    assert isinstance(outcome_of(sent(producer, b"next")), RecordMetadata)
    assert producer.identity.current is not None
    assert (isinstance(outcome, RecordMetadata), producer.identity.current.epoch) == expected
    if isinstance(outcome, BrokerError):
        assert outcome.code is code


def test_a_duplicate_counts_as_stored() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.refuse = refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert outcome_of(sent(producer, b"v", timestamp_ms=3)) == RecordMetadata("t", 0, -1, 3)


def test_numbers_wrap() -> None:
    assert following(2**31 - 2, 1) == 2**31 - 1
    assert following(2**31 - 1, 1) == 0
    assert following(2**31 - 1, 5) == 4


def test_the_epoch_of_one_partition_leaves_the_others_alone() -> None:
    producer = SimulatedProducer({"t": [1, 1]}, linger_ms=0)
    producer.learn()
    sent(producer, b"a", partition=1)
    producer.refuse = lambda topic, number, batch: ErrorCode.INVALID_RECORD if number == 0 else 0
    sent(producer, b"bad", partition=0)
    producer.refuse = lambda topic, number, batch: 0
    sent(producer, b"b", partition=0)
    sent(producer, b"b", partition=1)
    numbers = [(at[1], batch.producer_epoch, batch.base_sequence) for *_, at, batch in producer.produced[1:]]
    assert numbers == [(1, 0, 0), (0, 0, 1), (0, 1, 0), (1, 1, 0)]


class SequencedBatch:
    """The parts of a batch that `Sequences` uses."""

    def __init__(self, count: int) -> None:
        self.builder = SimpleNamespace(count=count)
        self.producer: ProducerId | None = None
        self.sequence = NO_SEQUENCE

    def stamp(self, producer: ProducerId, sequence: int) -> None:
        self.producer, self.sequence = producer, sequence


def test_an_earlier_batch_may_be_acknowledged_after_a_later_one_that_was_given_up() -> None:
    sequences: Any = Sequences()
    first, last = SequencedBatch(5), SequencedBatch(3)
    for batch in (first, last):
        sequences.assign(batch, ProducerId(7, 0))
    sequences.failed(last)
    sequences.acknowledged(last)
    sequences.acknowledged(first)
    assert not sequences.needs_epoch, "no sequence number may be missing"


def numbered(*counts: int) -> tuple[Any, list[Any]]:
    """Return a partition's sequence numbers, and the batches that have them."""
    sequences: Any = Sequences()
    batches = [SequencedBatch(count) for count in counts]
    for batch in batches:
        sequences.assign(batch, ProducerId(7, 0))
    return sequences, batches


def test_the_second_batch_waits_until_the_leader_knows_the_producer() -> None:
    sequences: Any = Sequences()
    first, second = SequencedBatch(2), SequencedBatch(1)
    assert sequences.may_send(first, ProducerId(7, 0))
    sequences.assign(first, ProducerId(7, 0))
    assert not sequences.may_send(second, ProducerId(7, 0))
    sequences.acknowledged(first)
    sequences.assign(second, ProducerId(7, 0))
    assert second.sequence == 2
    assert sequences.may_send(SequencedBatch(1), ProducerId(7, 0))
    assert not sequences.may_send(SequencedBatch(1), ProducerId(7, 1)), "the leader does not know that producer yet"


def test_only_the_oldest_is_sent_again_and_nothing_past_a_gap() -> None:
    sequences, (first, second, third) = numbered(1, 1, 1)
    assert [sequences.may_send(each, ProducerId(7, 0)) for each in (first, second)] == [True, False]
    sequences.failed(third)
    assert not sequences.may_send(SequencedBatch(1), ProducerId(7, 0)), "the third batch may be missing"
    sequences.acknowledged(first)
    assert not sequences.needs_epoch
    sequences.acknowledged(second)
    assert sequences.needs_epoch
    assert not sequences.may_send(SequencedBatch(1), ProducerId(7, 0))


def test_a_batch_that_was_never_sent_leaves_no_gap() -> None:
    sequences: Any = Sequences()
    sequences.failed(SequencedBatch(1))
    assert not sequences.needs_epoch
    assert sequences.may_send(SequencedBatch(1), ProducerId(7, 0))


def test_what_remains_is_numbered_again() -> None:
    sequences, (first, second, third) = numbered(4, 2, 1)
    sequences.acknowledged(first)
    sequences.needs_epoch = sequences.is_forgotten = True
    sequences.restart(ProducerId(7, 1))
    assert [(each.producer.epoch, each.sequence) for each in (second, third)] == [(1, 0), (1, 2)]
    assert (sequences.needs_epoch, sequences.is_forgotten) == (False, False)
    sequences.acknowledged(first)
    assert not sequences.may_send(SequencedBatch(1), ProducerId(7, 1)), "the leader knew it in the previous epoch"
    sequences.acknowledged(second)
    last = SequencedBatch(1)
    assert sequences.may_send(last, ProducerId(7, 1))
    sequences.assign(last, ProducerId(7, 1))
    assert last.sequence == 3


def test_parts_have_the_numbers_and_the_place_of_their_batch() -> None:
    sequences, (first, whole, last) = numbered(1, 5, 1)
    parts = [SequencedBatch(3), SequencedBatch(2)]
    sequences.divide(whole, parts)
    assert sequences.batches == [first, *parts, last]
    assert [part.sequence for part in parts] == [1, 4]
    unsent, part = SequencedBatch(2), SequencedBatch(2)
    sequences.divide(unsent, [part])
    assert (part.sequence, part.producer) == (NO_SEQUENCE, None)


@pytest.mark.parametrize("log_start_offset", [-1, 0, 12, 13])
@pytest.mark.parametrize("raises_epoch", [True, False])
def test_an_unknown_producer_goes_on_if_its_records_were_deleted(log_start_offset: int, raises_epoch: bool) -> None:
    sequences, (early, late, batch) = numbered(1, 3, 1)
    sequences.acknowledged(late, 10)
    sequences.acknowledged(early, 5)
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    retries = sequences.mends(batch, code, log_start_offset, raises_epoch=raises_epoch)
    assert retries is (raises_epoch or log_start_offset in (-1, 13))
    assert sequences.needs_epoch is sequences.is_forgotten is (log_start_offset >= 0)


def test_the_first_record_of_a_log_is_stored_at_offset_0() -> None:
    sequences, (first, batch) = numbered(1, 1)
    sequences.acknowledged(first, 0)
    assert not sequences.mends(batch, ErrorCode.UNKNOWN_PRODUCER_ID, 0, raises_epoch=False)


def test_only_the_oldest_shows_a_gap() -> None:
    sequences, (first, second) = numbered(1, 1)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sequences.mends(second, code, -1, raises_epoch=False)
    assert not sequences.needs_epoch
    assert not sequences.mends(first, code, -1, raises_epoch=False)
    assert sequences.needs_epoch
    assert not sequences.is_forgotten
    assert sequences.mends(first, code, -1, raises_epoch=True)
    assert not sequences.mends(first, ErrorCode.NOT_ENOUGH_REPLICAS, -1, raises_epoch=True)
    assert not sequences.mends(SequencedBatch(1), code, -1, raises_epoch=True), "the batch has no number"


def test_what_is_acknowledged_last_shows_that_no_number_is_missing() -> None:
    sequences, (first, second, third) = numbered(1, 1, 1)
    sequences.failed(third)
    for batch in (first, third, second):
        sequences.acknowledged(batch)
    assert not sequences.needs_epoch
