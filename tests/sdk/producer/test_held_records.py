"""Records wait in the accumulator until their topic is known, and are then placed in order, before any others.

Method: use an accumulator with the engine in use, without a sender, to which the test makes topics known; use a
producer for records that are rejected before they are held.
"""

from __future__ import annotations

from asyncio import CancelledError
from enum import StrEnum
from typing import Any

import pytest

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.records import RecordBatch
from tests.sdk.producer.filled import Filled
from tests.sdk.producer.producing import producing
from tests.sdk.scripted_broker import StoringBroker


def test_records_of_unknown_topics_wait_and_are_placed_in_order() -> None:
    filled = Filled()
    deliveries = [filled.send("new", b"%d" % number, partition=number % 2) for number in range(4)]
    absent = filled.send("new", b"v", partition=7)
    topic = filled.accumulator.topics["new"]
    held = filled.accumulator.bytes_held
    assert held > 0
    moved: list[Any] = []
    filled.accumulator.place_held(topic, 2, lambda outcome, other: moved.append(other), lambda outcome: None)
    assert len(moved) == 4
    assert not any(delivery.done for delivery in deliveries)
    assert not absent.done
    assert [record.partition for record in topic.held] == [7]
    first, second = (topic.queues[number].gather() for number in (0, 1))
    assert [[r.value for r in RecordBatch(bytes(batch.sealed())).records()] for batch in first] == [[b"0", b"2"]]
    assert {batch.created_ms for batch in first + second} == {77}
    filled.accumulator.place_held(topic, 8, lambda outcome, other: moved.append(other), lambda outcome: None)
    (last,) = topic.queues[7].gather()
    assert [record.value for record in RecordBatch(bytes(last.sealed())).records()] == [b"v"]
    assert not topic.holds


def test_a_record_for_an_absent_partition_that_has_failed_is_let_go() -> None:
    filled = Filled()
    for number in (7, 8):
        filled.send("new", b"v", partition=number)
    topic = filled.accumulator.topics["new"]
    topic.gather()
    first, second = topic.held
    filled.accumulator.give_up_held(second, KafkaWireError("gone"))
    filled.accumulator.place_held(topic, 2, lambda outcome, other: None, lambda outcome: None)
    assert list(topic.held) == [first]


def test_the_time_that_a_record_was_held_counts_towards_its_delivery() -> None:
    filled = Filled()
    filled.send("new", b"v")
    filled.now_ms += 5_000
    topic = filled.accumulator.topics["new"]
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, lambda outcome: None)
    (batch,) = topic.queues[0].gather()
    assert batch.created_ms == 77


def test_a_held_record_that_has_failed_is_not_placed_behind_one_that_waits() -> None:
    filled = Filled()
    waiting, given_up = (filled.send("new", value) for value in (b"waiting", b"given up"))
    topic = filled.accumulator.topics["new"]
    topic.gather()
    filled.accumulator.give_up_held(topic.held[1], KafkaWireError("gone"))
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, lambda outcome: None)
    (batch,) = topic.queues[0].gather()
    assert [record.value for record in RecordBatch(bytes(batch.sealed())).records()] == [b"waiting"]
    assert (waiting.done, given_up.done) == (False, True)
    assert filled.accumulator.bytes_held == batch.admitted_bytes


def test_others_are_let_in_once_all_that_waited_is_placed() -> None:
    filled = Filled()
    for _ in range(2):
        filled.send("new", b"v")
    topic = filled.accumulator.topics["new"]
    during: list[int] = []
    filled.accumulator.place_held(
        topic, 2, lambda outcome, other: during.append(topic.partitions), lambda outcome: None
    )
    assert (during, topic.partitions) == ([0, 0], 2)


def test_errors_of_a_held_record() -> None:
    filled = Filled()
    delivery = filled.send("new", b"v")
    topic = filled.accumulator.topics["new"]
    topic.gather()
    filled.accumulator.give_up_held(topic.held[0], KafkaWireError("gone"))
    assert str(delivery.exception()) == "gone"
    assert filled.accumulator.bytes_held == 0
    assert not topic.holds


def test_a_partitioner_that_raises_what_is_no_exception_fails_its_record_alone() -> None:
    def partitioner(key: bytes, partitions: int) -> int:
        if key == b"bad":
            raise CancelledError
        return 0

    filled = Filled(partitioner=partitioner)
    bad, good = (filled.send("new", b"v", key=key) for key in (b"bad", b"good"))
    topic = filled.accumulator.topics["new"]
    ended: list[Any] = []
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, ended.append)
    assert "the partitioner returned an invalid partition for key b'bad'" in str(bad.exception())
    assert (len(ended), good.done) == (1, False)
    assert filled.accumulator.bytes_held == topic.queues[0].gather()[0].admitted_bytes


def test_a_topic_may_be_a_member_of_an_enumeration() -> None:
    class Topics(StrEnum):
        NEW = "new"

    filled = Filled()
    filled.send(Topics.NEW, b"1")
    (topic,) = (each for name, each in filled.accumulator.topics.items() if name == "new")
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, lambda outcome: None)
    filled.send(Topics.NEW, b"2", partition=0)
    (batch,) = topic.queues[0].gather()
    assert [record.value for record in RecordBatch(bytes(batch.sealed())).records()] == [b"1", b"2"]
    assert type(topic.name) is type(batch.outcome.partition.topic) is str


class Unwilling:
    """An integer-like object that does not reveal its value."""

    def __index__(self) -> int:
        raise ZeroDivisionError("not now")

    def __repr__(self) -> str:
        raise ZeroDivisionError("nor then")


@pytest.mark.parametrize("partition", ["0", True, 1.5, -1, 2**31, Unwilling(), 10**5_000], ids=type)
def test_what_is_no_partition_is_refused_whether_or_not_the_topic_is_known(partition: Any) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("m", b"first")
        for topic in ("m", "t"):
            with pytest.raises(LocalProtocolError, match=f"^(partition of|topic) {topic}"):
                producer.send(topic, b"v", partition=partition)
            with pytest.raises(LocalProtocolError, match=f"^partition of {topic}: expected "):
                await producer.send_many(topic, [b"v"], partition=partition)
        await producer.send("m", b"second")
        assert broker.values("m") == [b"first", b"second"]
        assert broker.values("t") == []

    producing(test)


def test_a_topic_with_a_name_that_cannot_be_written() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        for given in ({}, {"partition": -1}):
            with pytest.raises(LocalProtocolError, match=r"^topic a number of 16610 bits: expected a string, got int$"):
                producer.send(10**5_000, b"v", **given)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(LocalProtocolError, match=r"^on_delivery: .*, got a number of 16610 bits$"):
            producer.send("t", b"v", on_delivery=10**5_000)  # type: ignore[arg-type]  # likewise
        with pytest.raises(LocalProtocolError, match=r"^timeout_ms: expected 0 to .*, got a number of 16610 bits$"):
            producer.send("t", b"v").result(10**5_000)

    producing(test, linger_ms=60_000)
