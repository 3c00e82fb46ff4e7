"""With any interleaving, records are stored once and in order, and each delivery is settled with its record's offset.

Method: let two threads and the sender take turns on one thread, so that every order can be tried: at each instruction
of a `send`, the sender and the other thread act, and at each instruction of the sender's turn, a thread acts. Only
instructions on the lines where they meet are counted; some are skipped to save time, and a step of 1 visits all of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.producer.engine import Delivery
from tests.sdk.instructions import interrupted_at
from tests.sdk.producer.simulated import SimulatedProducer, place_of
from tests.thorough import sampled

#: The files in which threads and the sender meet.
SHARED = tuple(
    f"kafkawire/sdk/producer/{name}.py"
    for name in ("accumulator", "arrivals", "buffer_memory", "partition_queue", "producer_topic")
)

#: The interruption is repeated after this many instructions, to find out what the first one has left behind.
GAP = 30

#: Memory that stays taken; without it, a double release would go unnoticed, because the count stops at 0.
MORE_BYTES = 100_000

#: Idle topics are forgotten after this time.
IDLE_MS = 5_000


class Party:
    """A thread that sends.

    Attributes:
        sent: the topic, value and delivery of each record.
    """

    def __init__(self, producer: SimulatedProducer, name: bytes) -> None:
        self._producer = producer
        self._name = name
        self.sent: list[tuple[str, bytes, Delivery]] = []

    def send(self, topic: str, count: int = 1, *, partition: int | None = 0, padding: int = 0) -> None:
        """Send the given number of records."""
        for _ in range(count):
            value = b"%s %d " % (self._name, len(self.sent)) + b"x" * padding
            self.sent.append((topic, value, self._producer.send(topic, value, partition=partition)))


#: Takes a producer and two parties, and returns two calls; the second interrupts the first.
Meeting = Callable[[SimulatedProducer, Party, Party], tuple[Callable[[], object], Callable[[], object]]]


def send_meets_turn(padding: int) -> Meeting:
    def meeting(producer: SimulatedProducer, one: Party, other: Party) -> Any:
        one.send("t", padding=200)

        def between() -> None:
            other.send("t", 2, padding=300)
            producer.run(20)
            other.send("t")

        return lambda: one.send("t", padding=padding), between

    return meeting


def turn_meets_sends(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    one.send("t", 3, padding=1_200)
    return lambda: producer.run(20), lambda: other.send("t", 3, padding=1_200)


def send_meets_a_topic_that_becomes_known(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    def between() -> None:
        other.send("new")
        producer.run(1_000)
        other.send("new")

    return lambda: one.send("new", 2), between


def a_topic_that_becomes_known_meets_sends(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    one.send("new", 2)
    return lambda: producer.run(1_000), lambda: other.send("new", 2)


def send_meets_new_partitions(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    producer.leaders["t"] = [1, 2]

    def between() -> None:
        other.send("t", partition=1)
        producer.run(1_000)
        other.send("t", partition=1)

    return lambda: one.send("t", 2, partition=1), between


def new_partitions_meet_sends(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    producer.leaders["t"] = [1, 2]
    one.send("t", 2, partition=1)
    one.send("t", partition=None)

    def between() -> None:
        other.send("t", 2, partition=1)
        other.send("t", partition=None)

    return lambda: producer.run(1_000), between


def send_meets_a_topic_that_is_forgotten(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    return lambda: one.send("t", 2), lambda: producer.run(3 * IDLE_MS)


def a_topic_that_is_forgotten_meets_sends(producer: SimulatedProducer, one: Party, other: Party) -> Any:
    producer.run(2 * IDLE_MS - 1_100)
    return lambda: producer.run(200), lambda: other.send("t", 2)


#: The meetings, each with its step: one in this many instructions is visited.
MEETINGS: dict[str, tuple[Meeting, int]] = {
    "a send to a batch that grows": (send_meets_turn(1_000), 3),
    "a send to a full batch": (send_meets_turn(2_900), 5),
    "a sender's turn": (turn_meets_sends, 7),
    "a send to a new topic": (send_meets_a_topic_that_becomes_known, 3),
    "a new topic": (a_topic_that_becomes_known_meets_sends, 3),
    "a send to a new partition": (send_meets_new_partitions, 3),
    "new partitions": (new_partitions_meet_sends, 7),
    "a send to an idle topic": (send_meets_a_topic_that_is_forgotten, 3),
    "an idle topic": (a_topic_that_is_forgotten_meets_sends, 1),
}


@pytest.mark.parametrize("name", sampled(MEETINGS, 3))
def test_records_are_stored_once_and_in_order(name: str) -> None:
    meeting, step = MEETINGS[name]
    place, was_met = 0, True
    while was_met:
        options: dict[str, Any] = {
            "linger_ms": 0,
            "batch_size": 3_000,
            "metadata_max_idle_ms": IDLE_MS,
            "delivery_timeout_ms": 60_000,
        }
        producer = SimulatedProducer({"t": [1], "new": [2]}, **options)
        producer.learn("t")
        producer.accumulator._memory.add(MORE_BYTES)
        parties = Party(producer, b"one"), Party(producer, b"other")
        call, between = meeting(producer, *parties)
        was_met = interrupted_at([place, place + GAP], call, between, SHARED)
        producer.run(2_000)
        for party in parties:
            check(producer, party)
        stored = Counter(value for log in producer.logs.values() for value in log.values if value != b"first")
        assert stored == Counter(value for party in parties for _, value, _ in party.sent)
        assert producer.accumulator.bytes_held == MORE_BYTES
        assert producer.flush().done
        for topic in producer.accumulator.topics.values():
            kept = [topic.sticky, *topic.open, *(queue.latest() for queue in topic.queues.values())]
            assert kept == [None] * len(kept), "stored records must not be kept in memory"
        place += step
    assert place > 40, "the instructions must have been seen"


def check(producer: SimulatedProducer, party: Party) -> None:
    """Check that a party's records are where their deliveries say, in order."""
    ends: dict[tuple[str, int], int] = {}
    for topic, value, delivery in party.sent:
        found = place_of(delivery)
        log = producer.log(topic, found.partition)
        assert (found.topic, log.values[found.offset]) == (topic, value)
        assert found.offset > ends.get((topic, found.partition), -1)
        ends[topic, found.partition] = found.offset
