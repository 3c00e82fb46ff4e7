"""A topic starts out unknown, with no state."""

from __future__ import annotations

import pytest

from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.producer.producer_topic import ProducerTopic
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.producer.filled import Filled


def test_a_new_topic() -> None:
    first, second = ProducerTopic("first"), ProducerTopic("second")
    assert (first.name, first.partitions, first.queues, list(first.held)) == ("first", 0, {}, [])
    assert [next(first.round_robin), next(first.round_robin), next(second.round_robin)] == [0, 1, 0]
    first.queues[0] = first.held  # type: ignore[assignment]  # each topic has its own
    assert second.queues == {}


def test_the_less_busy_of_two_partitions_with_a_leader() -> None:
    topic = ProducerTopic("t")
    topic.open.extend([None] * 4)
    busy = topic.queues[1] = PartitionQueue(TopicPartition("t", 1))
    busy.on_wire = 1
    for fractions, led, expected in (
        ((0.25, 0.75), {0, 1, 2, 3}, 3),
        ((0.25, 0.75), {1}, 1),
        ((0.25, 0.75), {0}, 0),
        ((0.25, 0.75), set(), 1),
    ):
        numbers = iter(fractions)
        assert topic.less_busy(lambda numbers=numbers: next(numbers), lambda name, number, led=led: number in led) == (
            expected
        )


def test_a_partition_that_is_not_there_has_no_open_batch() -> None:
    assert ProducerTopic("t").open_batch(0) is None


@pytest.mark.parametrize("is_sticky", [False, True])
def test_a_batch_that_was_closed_meanwhile_is_not_shown_as_open(is_sticky: bool) -> None:
    filled = Filled()
    filled.send("t", b"v")
    (batch,) = filled.batches()
    topic = filled.accumulator.topics["t"]
    number = batch.queue.partition.partition
    topic.shown_open(batch, is_sticky=is_sticky)
    assert (topic.open_batch(number), topic.sticky) == (batch, batch)
    topic.shown_closed(batch)
    assert (topic.open_batch(number), topic.sticky) == (None, None)
    batch.close()
    topic.shown_open(batch, is_sticky=is_sticky)
    assert (topic.open_batch(number), topic.sticky) == (None, None)
