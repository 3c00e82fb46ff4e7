"""An accumulator without a sender, for tests; the test makes a topic known to it."""

from __future__ import annotations

from random import Random

from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.partition_queue import ProducerBatch
from kafkawire.sdk.producer.producer_topic import ProducerTopic
from kafkawire.sdk.producer.settings import read_producer_options
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.routing.retry import Backoff

__all__ = ["Filled"]


class Filled:
    """An accumulator that knows topic t.

    Args:
        partitions: the topic's number of partitions.
        leaderless: the partitions without a leader.
        given: options.

    Attributes:
        wakes: how many times the I/O side was woken.
        now_ms: the current time.
    """

    def __init__(self, partitions: int = 1, leaderless: frozenset[int] = frozenset(), **given: object) -> None:
        self.wakes = 0
        self.now_ms = 77
        options = read_producer_options("a:1", given)
        self.accumulator = Accumulator(
            options,
            Backoff(100, 1000, Random(1).random),
            lambda: self.now_ms,
            lambda topic, number: number not in leaderless,
            self.wake,
        )
        self.topic = self.accumulator.topics["t"] = ProducerTopic("t")
        self.accumulator.place_held(self.topic, partitions, lambda outcome, other: None, lambda outcome: None)
        self.send = self.accumulator.appender.send

    def wake(self) -> None:
        self.wakes += 1

    def batches(self) -> list[ProducerBatch]:
        """The waiting batches, as the sender would see them."""
        for queue in list(self.topic.queues.values()):
            queue.gather()
        return [batch for queue in list(self.topic.queues.values()) for batch in list(queue.waiting)]

    def values(self) -> list[bytes | None]:
        return [record.value for batch in self.batches() for record in RecordBatch(bytes(batch.sealed())).records()]
