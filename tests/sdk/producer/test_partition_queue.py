"""Batches that come back take their place by age."""

from __future__ import annotations

import weakref

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


def test_batches_are_gathered_once_in_the_order_in_which_they_were_opened() -> None:
    queue = PartitionQueue(TopicPartition("t", 0))
    first, second, other = (batch(queue, number) for number in (1, 2, 3))
    assert queue.latest() is None
    assert queue.follow(None, first)
    assert not queue.follow(None, other), "another thread was first"
    assert queue.latest() is first
    assert queue.load == 1
    assert queue.follow(first, second)
    assert (queue.latest(), queue.load) == (second, 2)
    assert queue.gather() == [first, second] == list(queue.waiting)
    assert (queue.gather(), queue.load) == ([], 2)
    assert not queue.follow(None, other), "nor does one that has looked before anything was there"


def test_batches_that_are_gone_are_not_kept() -> None:
    queue = PartitionQueue(TopicPartition("t", 0))

    class Noted(ProducerBatch):
        __slots__ = ("__weakref__",)

    former = opened = None
    gone = []
    for number in range(3):
        opened = Noted(queue, (number,), BatchBuilder(), Attempts(Backoff(1, 1, lambda: 0.5), 100), 1000, 0)
        gone.append(weakref.ref(opened))
        assert queue.follow(former, opened)
        former = opened
        queue.gather()
        queue.waiting.clear()
        assert queue.latest() is opened
    assert opened is not None
    opened.close()
    queue.let_go(opened)
    assert queue.latest() is None
    late, last = batch(queue, 3), batch(queue, 4)
    assert queue.follow(opened, late), "a thread has found it before"
    assert not queue.follow(None, last), "and others find what this thread has opened"
    assert queue.latest() is late
    del opened, former
    assert [each() is None for each in gone] == [True, True, True]
