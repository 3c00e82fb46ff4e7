"""The leader of a partition stores each batch once and in order, and numbers that are missing for good begin anew.

Method: the producer's machines beside simulated brokers that check sequence numbers as Apache Kafka does; numbers that
wrap are tested on `Sequences` alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, ConnectionLost, DeliveryTimedOut
from kafkawire.sdk.producer.batch import ProducerId
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.producer.sequences import Sequences, following
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from tests.sdk.client.simulation import SILENT, topic_id
from tests.sdk.producer.simulated import SimulatedProducer, outcome_of, place_of, refused, sent

#: A delivery is settled so long after `delivery_timeout_ms` at the latest.
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


class Numbered:
    """A batch of some records, as far as `Sequences` looks at it."""

    def __init__(self, count: int) -> None:
        self.builder = SimpleNamespace(count=count)
        self.producer: ProducerId | None = None
        self.sequence = NO_SEQUENCE

    def stamp(self, producer: ProducerId, sequence: int) -> None:
        self.producer, self.sequence = producer, sequence


def test_an_earlier_batch_may_be_acknowledged_after_a_later_one_that_was_given_up() -> None:
    sequences: Any = Sequences()
    first, last = Numbered(5), Numbered(3)
    for batch in (first, last):
        sequences.assign(batch, ProducerId(7, 0))
    sequences.failed(last)
    sequences.acknowledged(last)
    sequences.acknowledged(first)
    assert not sequences.needs_epoch, "no number is missing"
