"""Records wait in the accumulator until their topic is known, and are placed in order, before all others.

Method: an accumulator with the engine in use, topics made known by hand, and nobody who sends.
"""

from __future__ import annotations

from asyncio import CancelledError
from enum import StrEnum
from typing import Any

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.records import RecordBatch
from tests.sdk.producer.filled import Filled


def test_records_of_unknown_topics_wait_and_are_placed_in_order() -> None:
    filled = Filled()
    deliveries = [filled.send("new", b"%d" % number, partition=number % 2) for number in range(4)]
    wrong = filled.send("new", b"v", partition=7)
    topic = filled.accumulator.topics["new"]
    held = filled.accumulator.bytes_held
    assert held > 0
    moved: list[Any] = []
    filled.accumulator.place_held(topic, 2, lambda outcome, other: moved.append(other), lambda outcome: None)
    assert len(moved) == 4
    assert not any(delivery.done for delivery in deliveries)
    assert isinstance(wrong.exception(), LocalProtocolError)
    assert [[r.value for r in RecordBatch(bytes(batch.sealed())).records()] for batch in topic.queues[0].waiting] == [
        [b"0", b"2"]
    ]
    assert {batch.created_ms for queue in topic.queues.values() for batch in queue.waiting} == {77}


def test_the_time_that_a_record_was_held_counts_towards_its_delivery() -> None:
    filled = Filled()
    filled.send("new", b"v")
    filled.now_ms += 5_000
    topic = filled.accumulator.topics["new"]
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, lambda outcome: None)
    (batch,) = topic.queues[0].waiting
    assert batch.created_ms == 77


def test_a_held_record_that_has_failed_is_not_placed_behind_one_that_waits() -> None:
    filled = Filled()
    waiting, given_up = (filled.send("new", value) for value in (b"waiting", b"given up"))
    topic = filled.accumulator.topics["new"]
    filled.accumulator.give_up_held(topic.held[1], KafkaWireError("gone"))
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, lambda outcome: None)
    (batch,) = topic.queues[0].waiting
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
    record = filled.accumulator.topics["new"].held[0]
    filled.accumulator.give_up_held(record, KafkaWireError("gone"))
    assert str(delivery.exception()) == "gone"
    assert filled.accumulator.bytes_held == 0
    assert not filled.accumulator.topics["new"].held


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
    assert "the partitioner gave no partition for key b'bad'" in str(bad.exception())
    assert (len(ended), good.done) == (1, False)
    assert filled.accumulator.bytes_held == topic.queues[0].waiting[0].admitted_bytes


def test_a_topic_may_be_a_member_of_an_enumeration() -> None:
    class Topics(StrEnum):
        NEW = "new"

    filled = Filled()
    filled.send(Topics.NEW, b"1")
    (topic,) = (each for name, each in filled.accumulator.topics.items() if name == "new")
    filled.accumulator.place_held(topic, 1, lambda outcome, other: None, lambda outcome: None)
    filled.send(Topics.NEW, b"2", partition=0)
    (batch,) = topic.queues[0].waiting
    assert [record.value for record in RecordBatch(bytes(batch.sealed())).records()] == [b"1", b"2"]
    assert type(topic.name) is type(batch.outcome.partition.topic) is str
