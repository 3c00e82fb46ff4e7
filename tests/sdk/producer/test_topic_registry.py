"""Each topic is found, grows and is forgotten independently.

Method: run the producer's state machines with simulated brokers whose topics come and go.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire.sdk.client.partitioner import murmur2_partition
from kafkawire.sdk.errors import (
    BrokerError,
    BufferFull,
    Closed,
    DeliveryTimedOut,
    KafkaWireError,
    LocalProtocolError,
    TransactionAborted,
)
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.producer.topic_registry import ABSENT_MS
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.producer.simulated import SimulatedProducer, outcome_of, place_of, sent
from tests.sdk.simulation import Later

#: A delivery is settled at most this long after `delivery_timeout_ms`.
GRACE_MS = 100

LATE = ErrorCode.NOT_ENOUGH_REPLICAS


def test_one_missing_topic_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    producer = SimulatedProducer({"t": [1]}, linger_ms=0, delivery_timeout_ms=4_000)
    with caplog.at_level(logging.WARNING, "kafkawire.producer"):
        missing = producer.send("never", b"v")
        producer.run(900)
        assert not caplog.text, "a broker may still be creating the topic"
        producer.run(1_100)
        assert "topic never; its records wait for up to delivery_timeout_ms=4000" in caplog.text
    assert isinstance(outcome_of(sent(producer, b"v")), RecordMetadata)
    producer.run(750)
    assert not missing.done
    producer.run(200 + GRACE_MS)
    error = outcome_of(missing)
    assert isinstance(error, DeliveryTimedOut)
    assert str(error).startswith("topic never is not known after delivery_timeout_ms=4000: UNKNOWN_TOPIC_OR_PARTITION")
    assert producer.router.metadata.wanted == {"t"}
    assert producer.accumulator.bytes_held == 0
    asked = len(producer.simulation.requests(MetadataRequest))
    producer.run(60_000)
    assert len(producer.simulation.requests(MetadataRequest)) - asked <= 1


def test_a_topic_that_is_being_created_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    producer = SimulatedProducer({"t": [1]}, linger_ms=0)
    with caplog.at_level(logging.INFO, "kafkawire"):
        new = producer.send("new", b"v")
        producer.run(800)
        producer.leaders["new"] = [1]
        producer.run(1_000)
    assert isinstance(outcome_of(new), RecordMetadata)
    assert not [message for message in caplog.messages if "topic" in message]


def test_a_name_that_is_wrong_is_said_soon_and_fails_within_a_limit_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    producer = SimulatedProducer({"orders": [1]}, linger_ms=0, topic_timeout_ms=3_000)
    producer.learn("orders")
    with caplog.at_level(logging.WARNING, "kafkawire.producer"):
        wrong = producer.send("oders", b"v")
        producer.run(2_000)
    near = "topic oders (did you mean orders?); its records wait for up to topic_timeout_ms=3000"
    assert caplog.messages == [f"UNKNOWN_TOPIC_OR_PARTITION: {near}"]
    assert not wrong.done
    producer.run(1_000 + GRACE_MS)
    assert str(outcome_of(wrong)) == (
        "topic oders is not known after topic_timeout_ms=3000: "
        "UNKNOWN_TOPIC_OR_PARTITION: topic oders (did you mean orders?)"
    )
    producer.leaders["late"] = [1]
    late = producer.send("late", b"v")
    producer.leaders["late"] = [None]
    producer.run(5_000)
    assert not late.done, "once its topic is known, a record must have all of delivery_timeout_ms"


def test_the_name_of_a_missing_topic_is_compared_once_with_some_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    monkeypatch.setattr(
        "difflib.get_close_matches", lambda name, names, *limits: compared.append(len(names)) or ["orders"]
    )
    names = ["orders", *(f"t{number}" for number in range(600))]
    producer = SimulatedProducer({name: [1] for name in names}, linger_ms=0, topic_timeout_ms=500)
    producer.learn()
    wrong = [producer.send("oders", b"v") for _ in range(20)]
    producer.run(500 + GRACE_MS)
    assert compared == [500]
    assert all("did you mean orders?" in str(outcome_of(each)) for each in wrong)


@pytest.mark.parametrize(
    ("error", "logged"),
    [(KafkaWireError("given up"), ["not stored: given up"]), (TransactionAborted("given up"), [])],
    ids=["failed", "as the application wanted"],
)
def test_a_topic_is_forgotten_with_its_last_record(
    error: KafkaWireError, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "kafkawire.producer")
    producer = SimulatedProducer({"t": [1]}, linger_ms=0)
    deliveries = [producer.send("never", b"v") for _ in range(2)]
    producer.run(100)
    assert producer.router.metadata.wanted == {"never"}
    producer.sender.abandon(error, producer.simulation.now_ms)
    assert [str(outcome_of(each)) for each in deliveries] == ["given up"] * 2
    assert caplog.messages == logged
    assert producer.router.metadata.wanted == set()
    assert producer.accumulator.bytes_held == 0
    assert producer.accumulator.topics == {}


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
    (number,) = {place_of(each).partition for each in deliveries}
    assert producer.values("new", number) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("chosen", [None, 9])
def test_a_partitioner_that_fails_once_the_topic_is_known(chosen: int | None) -> None:
    """The delivery is settled, `flush` returns, and the record leaves no deadline behind."""

    def partitioner(key: bytes, partitions: int) -> int:
        if key == b"bad":
            return chosen if chosen is not None else partitions // 0
        return 0

    producer = SimulatedProducer({"t": [1]}, linger_ms=0, delivery_timeout_ms=2_000, partitioner=partitioner)
    bad, good = producer.send("t", b"v", key=b"bad"), producer.send("t", b"v", key=b"good")
    promise = producer.flush()
    producer.run(1_000)
    assert isinstance(outcome_of(bad), LocalProtocolError)
    assert place_of(good).offset == 0
    assert promise.done
    producer.run(10_000)
    assert isinstance(outcome_of(sent(producer, b"v", key=b"good")), RecordMetadata)
    assert producer.accumulator.bytes_held == 0


def test_new_partitions_are_used() -> None:
    producer = SimulatedProducer(metadata_max_age_ms=1_000, linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [1, 2]
    producer.run(2_000)
    assert place_of(sent(producer, b"v", partition=1)).partition == 1


def test_a_partition_that_was_added_is_asked_for() -> None:
    """The next refresh due to age is minutes away; records for other partitions need not wait."""
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [1, 2, 3]
    deliveries = [producer.send("t", b"%d" % number, partition=2) for number in range(3)]
    assert place_of(sent(producer, b"v", 2, partition=0)).partition == 0
    producer.run(1_000)
    assert {place_of(each).partition for each in deliveries} == {2}
    assert producer.values("t", 2) == [b"0", b"1", b"2"]
    assert producer.accumulator.bytes_held == 0


def test_a_partition_that_does_not_exist(caplog: pytest.LogCaptureFixture) -> None:
    """A warning is logged immediately, and the records fail within the limit for unknown topics; others are sent."""
    producer = SimulatedProducer({"t": [1, 1, 1]}, linger_ms=0, topic_timeout_ms=5_000)
    producer.learn()
    caplog.set_level(logging.WARNING, "kafkawire.producer")
    before = len(producer.simulation.requests(MetadataRequest))
    absent = [producer.send("t", b"v", partition=99) for _ in range(3)]
    promise = producer.flush()
    producer.run(500)
    wait = "topic t has partitions 0 to 2, not {}; such records wait for up to 5000 ms"
    assert caplog.messages == [wait.format(99)]
    assert place_of(sent(producer, b"v", 5)).offset >= 0
    producer.run(2_000)
    later = producer.send("t", b"v", partition=7)
    producer.run(2_600)
    for delivery in absent:
        error = outcome_of(delivery)
        assert isinstance(error, LocalProtocolError)
        assert str(error) == "topic t has partitions 0 to 2, not 99, even after topic_timeout_ms=5000"
    assert promise.done
    assert not later.done
    producer.run(3_000)
    assert str(outcome_of(later)) == "topic t has partitions 0 to 2, not 7, even after topic_timeout_ms=5000"
    assert len(producer.simulation.requests(MetadataRequest)) - before <= 15, (
        "expected one request a second, after shorter pauses"
    )
    assert producer.accumulator.bytes_held == 0
    assert [line for line in caplog.messages if "wait" in line] == [wait.format(99)]
    producer.run(5_000)
    before = len(producer.simulation.requests(MetadataRequest))
    producer.run(60_000)
    assert len(producer.simulation.requests(MetadataRequest)) - before <= 1
    caplog.clear()
    producer.send("t", b"v", partition=8)
    producer.run(500)
    assert caplog.messages == ["topic t has partitions 0 to 2, not 8; such records wait for up to 5000 ms"]


def test_a_partition_that_no_answer_names_for_long_does_not_exist() -> None:
    """With the default options, no record waits two minutes because of a wrong partition number."""
    producer = SimulatedProducer(linger_ms=0)
    first = producer.send("t", b"v", partition=7)
    producer.run(ABSENT_MS - 1_500)
    second, third = producer.send("t", b"v", partition=8), producer.send("t", b"v", partition=7)
    assert not first.done
    producer.run(3_000)
    assert str(outcome_of(first)).startswith("topic t has partitions 0 to 0, not 7, even after 1")
    assert not second.done
    producer.run(ABSENT_MS)
    assert [type(outcome_of(each)) for each in (second, third)] == [LocalProtocolError] * 2
    assert producer.accumulator.bytes_held == 0


def test_a_partition_that_comes_in_time_is_waited_for() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    delivery = producer.send("t", b"v", partition=1)
    producer.run(ABSENT_MS - 1_500)
    producer.leaders["t"] = [1, 2]
    producer.run(1_500)
    assert place_of(delivery).partition == 1


def test_many_records_for_a_partition_that_does_not_exist_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SimulatedProducer(linger_ms=0, buffer_memory=100_000, topic_timeout_ms=2_000, max_request_size=10_000)
    producer.learn()
    placed: list[int] = []
    place_held = producer.accumulator.place_held
    monkeypatch.setattr(
        producer.accumulator, "place_held", lambda *arguments: placed.append(1) or place_held(*arguments)
    )
    before, deliveries = len(producer.simulation.requests(MetadataRequest)), []

    def fill() -> None:
        while True:
            deliveries.append(producer.send("t", b"v" * 100, partition=1))
            if len(deliveries) % 50 == 0:
                producer.run(1)

    with pytest.raises(BufferFull):
        fill()
    assert len(deliveries) > 400
    producer.run(2_000 + GRACE_MS)
    assert {str(outcome_of(each)) for each in deliveries} == {
        "topic t has partitions 0 to 0, not 1, even after topic_timeout_ms=2000"
    }
    assert len(producer.simulation.requests(MetadataRequest)) - before <= 8
    assert placed == [], "waiting records must not be examined while nothing has changed"
    assert producer.accumulator.bytes_held == 0


@pytest.mark.parametrize("lag_ms", [50, 3_000])
def test_a_partition_that_was_added_waits_for_brokers_that_have_not_heard_of_it(lag_ms: int) -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.leaders["t"], producer.stale = [1, 2], {"t": [1]}
    deliveries = [producer.send("t", b"%d" % number, partition=1) for number in range(3)]
    flushed = producer.flush()
    producer.run(lag_ms)
    assert place_of(sent(producer, b"v", 5, partition=0)).partition == 0, "other records must not wait"
    deliveries.append(producer.send("t", b"3", partition=1))
    producer.run(5)
    assert not any(each.done for each in [*deliveries, flushed])
    producer.stale = None
    producer.run(1_500)
    assert {place_of(each).partition for each in deliveries} == {1}
    assert producer.values("t", 1) == [b"0", b"1", b"2", b"3"]
    assert flushed.done
    assert producer.accumulator.bytes_held == 0


def test_a_partition_of_a_new_topic_waits_for_brokers_that_have_not_heard_of_it() -> None:
    producer = SimulatedProducer({"t": [1, 2]}, linger_ms=0)
    producer.stale = {"t": [1]}
    delivery, other = producer.send("t", b"v", partition=1), producer.send("t", b"v", key=b"k")
    producer.run(2_000)
    assert (delivery.done, place_of(other).partition) == (False, 0)
    producer.stale = None
    producer.run(1_500)
    assert place_of(delivery).partition == 1


def test_a_partition_of_a_topic_that_is_deleted() -> None:
    producer = SimulatedProducer(linger_ms=0, topic_timeout_ms=2_000)
    producer.learn()
    del producer.leaders["t"]
    delivery = producer.send("t", b"v", partition=1)
    producer.run(2_000 + GRACE_MS)
    error = outcome_of(delivery)
    assert isinstance(error, DeliveryTimedOut)
    assert str(error) == ("partition t-1 is not known after topic_timeout_ms=2000: UNKNOWN_TOPIC_OR_PARTITION: topic t")


def test_a_partition_that_nobody_can_be_asked_about() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=3_000, request_timeout_ms=1_000)
    producer.learn()
    producer.simulation.down = {1, 2, 3}
    for node in (1, 2, 3):
        producer.simulation.break_connections(node)
    delivery = producer.send("t", b"v", partition=1)
    producer.run(3_000 + GRACE_MS)
    error = outcome_of(delivery)
    assert isinstance(error, DeliveryTimedOut)
    assert "partition t-1 is not known after delivery_timeout_ms=3000: cannot connect to node-1:9092: refused" in str(
        error
    )
    producer.simulation.down = set()
    producer.run(2_000)
    assert place_of(sent(producer, b"v")).partition == 0


def test_a_client_that_ends_while_a_partition_is_asked_about() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    delivery = producer.send("t", b"v", partition=1)
    producer.simulation.close()
    assert isinstance(outcome_of(delivery), Closed)
    assert producer.accumulator.bytes_held == 0


def test_a_topic_that_is_created_again_with_fewer_partitions() -> None:
    """Keys go where every other producer sends them; records for removed partitions fail by their deadline."""
    producer = SimulatedProducer({"t": [1] * 8}, metadata_max_age_ms=1_000, linger_ms=0, delivery_timeout_ms=5_000)
    producer.learn()
    for number in range(8):
        assert place_of(sent(producer, b"v", partition=number)).partition == number
    producer.refuse = lambda topic, number, batch: LATE if number == 7 else 0
    stranded = producer.send("t", b"v", partition=7)
    producer.run(10)
    late = producer.send("t", b"v", partition=6)
    producer.leaders["t"], producer.lives["t"] = [1, 2, 3], 1
    producer.run(3_000)
    keys = [b"k%d" % number for number in range(12)]
    deliveries = [producer.send("t", b"v", key=key) for key in keys]
    deliveries += [producer.send("t", b"v") for _ in keys]
    producer.run(1_000)
    assert [place_of(each).partition for each in deliveries[:12]] == [murmur2_partition(key, 3) for key in keys]
    assert all(place_of(each).partition < 3 for each in deliveries)
    gone = producer.send("t", b"v", partition=7)
    producer.run(5_000 + GRACE_MS)
    assert "partitions 0 to 2, not 7" in str(outcome_of(gone))
    for delivery in (stranded, late):
        error = outcome_of(delivery)
        assert isinstance(error, DeliveryTimedOut)
        assert "UNKNOWN_TOPIC_ID" in str(error)
    assert producer.accumulator.bytes_held == 0
    producer.refuse = lambda topic, number, batch: 0
    producer.leaders["t"] = [1] * 8
    producer.run(3_000)
    assert place_of(sent(producer, b"v", partition=5)).partition == 5


def test_a_batch_that_lingers_for_a_partition_that_is_gone() -> None:
    producer = SimulatedProducer(
        {"t": [1] * 3}, metadata_max_age_ms=1_000, linger_ms=3_000, delivery_timeout_ms=5_000, request_timeout_ms=1_000
    )
    producer.learn()
    producer.run(4_000)
    deliveries = [producer.send("t", b"v", partition=2), producer.send("t", b"v", partition=0)]
    producer.leaders["t"] = [1, 1]
    producer.run(2_000)
    deliveries.append(producer.send("t", b"v", partition=0))
    producer.run(5_000)
    assert isinstance(outcome_of(deliveries[0]), DeliveryTimedOut)
    assert [place_of(each).partition for each in deliveries[1:]] == [0, 0]
    assert producer.accumulator.bytes_held == 0


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


def test_a_topic_that_is_forgotten_while_a_thread_opens_a_batch_there_is_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = SimulatedProducer(metadata_max_idle_ms=5_000, linger_ms=0, delivery_timeout_ms=2_000)
    producer.learn()
    append = producer.accumulator._append

    def interrupted(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        producer.run(12_000)
        assert producer.router.metadata.wanted == set()
        return append(*arguments, **named)

    monkeypatch.setattr(producer.accumulator, "_append", interrupted)
    first, second = producer.send("t", b"1"), producer.send("t", b"2")
    producer.run(1_000)
    assert [place_of(each).offset for each in (first, second)] == [1, 2]
    monkeypatch.setattr(producer.accumulator, "_append", interrupted)
    alone = producer.send("t", b"3")
    producer.run(1_000)
    assert place_of(alone).offset == 3


def test_a_topic_with_records_that_wait_is_not_forgotten() -> None:
    producer = SimulatedProducer({"t": [None]}, metadata_max_idle_ms=5_000, delivery_timeout_ms=120_000)
    delivery = producer.send("t", b"v")
    producer.run(30_000)
    assert not delivery.done
    producer.leaders["t"] = [2]
    producer.run(5_000)
    assert place_of(delivery).offset == 0


def test_a_topic_with_a_batch_in_flight_is_not_forgotten() -> None:
    producer = SimulatedProducer(metadata_max_idle_ms=5_000, linger_ms=0)
    producer.learn()
    usual, late = producer.simulation.handlers[1, ProduceRequest], Later()
    requests: list[Any] = []

    def wait(request: ProduceRequest, version: int) -> Later:
        requests.append(request)
        return late

    producer.simulation.handlers[1, ProduceRequest] = wait
    delivery = producer.send("t", b"v")
    producer.run(20_000)
    assert set(producer.accumulator.topics) == producer.router.metadata.wanted == {"t"}
    late.answer(usual(requests[0], 0))  # type: ignore[arg-type]  # a message
    producer.run(10)
    assert place_of(delivery).offset == 1


def test_a_topic_that_may_not_be_used_fails_at_once() -> None:
    producer = SimulatedProducer({"t": [1]}, linger_ms=0)
    answer = producer.simulation.handlers[MetadataRequest]

    def handle(request: MetadataRequest, version: int) -> Any:
        response: Any = answer(request, version)
        for topic in response.topics:
            if topic.name == "secret":
                topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    producer.simulation.handlers[MetadataRequest] = handle
    deliveries = [producer.send("secret", b"v") for _ in range(3)]
    producer.run(500)
    for delivery in deliveries:
        error = outcome_of(delivery)
        assert isinstance(error, BrokerError)
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert producer.router.metadata.wanted == set()
    assert producer.accumulator.bytes_held == 0


def test_without_a_broker_the_reason_is_reported() -> None:
    producer = SimulatedProducer(delivery_timeout_ms=1_000)
    producer.simulation.down = {1, 2, 3}
    delivery = producer.send("t", b"v")
    producer.run(1_000 + GRACE_MS)
    assert "topic t is not known after delivery_timeout_ms=1000: cannot connect to node-1:9092: refused" in str(
        outcome_of(delivery)
    )


def test_a_partition_that_was_added_is_asked_for_again_once_brokers_are_back() -> None:
    producer = SimulatedProducer(linger_ms=0, request_timeout_ms=1_000, api_timeout_ms=2_000)
    producer.learn()
    producer.leaders["t"] = [1, 2]
    producer.simulation.down = {1, 2, 3}
    for node in (1, 2, 3):
        producer.simulation.break_connections(node)
    delivery = producer.send("t", b"v", partition=1)
    producer.run(10_000)
    producer.simulation.down = set()
    producer.run(5_000)
    assert place_of(delivery).partition == 1


def test_a_partition_is_asked_for_until_the_topic_is_back() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    del producer.leaders["t"]
    delivery = producer.send("t", b"v", partition=1)
    producer.run(1_000)
    assert not delivery.done
    producer.leaders["t"] = [1, 2]
    producer.run(5_000)
    assert place_of(delivery).partition == 1


def test_a_topic_in_use_is_not_forgotten() -> None:
    producer = SimulatedProducer(metadata_max_idle_ms=5_000, linger_ms=0)
    producer.learn()
    for _ in range(12):
        producer.run(1_000)
        assert producer.accumulator.topics["t"].partitions == 1
        producer.send("t", b"v")
