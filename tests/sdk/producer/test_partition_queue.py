"""Batches that come back take their place by age."""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.retry import Attempts, Backoff
from kafkawire.sdk.producer.batch import ProducerBatch
from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.records import BatchBuilder


def batch(queue: PartitionQueue, *order: int) -> ProducerBatch:
    attempts = Attempts(Backoff(1, 1, lambda: 0.5), 100)
    return ProducerBatch(queue, order, BatchBuilder(), attempts, 1000, 0)


@pytest.mark.parametrize("orders", [[(3,), (1,), (2,)], [(2, 1), (3,), (2, 0)], [(1,)]])
def test_by_age(orders: list[tuple[int, ...]]) -> None:
    queue = PartitionQueue(TopicPartition("t", 0))
    for order in orders:
        queue.put_back(batch(queue, *order))
    assert [each.order for each in queue.waiting] == sorted(orders)


def test_it_begins_empty() -> None:
    queue = PartitionQueue(TopicPartition("t", 0))
    assert (len(queue.waiting), queue.on_wire, queue.usual_bytes) == (0, 0, 0)


def test_remove() -> None:
    queue = PartitionQueue(TopicPartition("t", 0))
    batches = [batch(queue, number) for number in range(3)]
    queue.waiting.extend(batches)
    queue.remove(batches[1])
    queue.remove(batches[1])
    queue.remove(batches[0])
    assert list(queue.waiting) == [batches[2]]
