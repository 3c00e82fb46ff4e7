"""Batches are gathered in the order in which they were opened, and those that come back are reinserted by age.

A batch is sealed with its producer's numbers, sealed again after the numbers change, and split without losing a record.
"""

from __future__ import annotations

import weakref

import pytest

from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.producer.partition_queue import PartitionQueue, ProducerBatch
from kafkawire.sdk.records import BatchBuilder, Compression, RecordBatch
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff


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
    assert not queue.follow(None, other), "another thread must have been faster"
    assert queue.latest() is first
    assert queue.load == 1
    assert queue.follow(first, second)
    assert (queue.latest(), queue.load) == (second, 2)
    assert queue.gather() == [first, second] == list(queue.waiting)
    assert (queue.gather(), queue.load) == ([], 2)
    assert not queue.follow(None, other), "a thread that looked before there was anything must not succeed either"


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
    assert queue.follow(opened, late), "a thread has found the batch before"
    assert not queue.follow(None, last), "other threads must find the batch that this thread has opened"
    assert queue.latest() is late
    del opened, former
    assert [each() is None for each in gone] == [True, True, True]


def filled(compression: Compression = Compression.NONE, count: int = 10) -> ProducerBatch:
    queue = PartitionQueue(TopicPartition("t", 4))
    attempts = Attempts(Backoff(1, 1, lambda: 0.5), 700)
    made = ProducerBatch(queue, (1,), BatchBuilder(4096, compression), attempts, 4096, 0)
    for number in range(count):
        made.builder.append(number, b"k", b"%d" % number + b"x" * 100, [("h", b"1")])
    return made


def test_about_a_batch() -> None:
    assert str(filled()) == "10 records for t-4"
    assert str(filled(count=1)) == "1 record for t-4"
    assert filled().deadline_ms == 700


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_batch_is_sealed_again_with_new_numbers(compression: Compression) -> None:
    made = filled(compression)
    for producer, sequence in ((ProducerId(5, 1), 3), (ProducerId(5, 2), 0)):
        made.stamp(producer, sequence)
        sealed = RecordBatch(bytes(made.sealed()))
        assert (sealed.producer_id, sealed.producer_epoch, sealed.base_sequence) == (*producer[:2], sequence)
        assert len(sealed.records()) == 10


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("size_bytes", [100, 400, 1000])
def test_parts_of_a_batch(compression: Compression, size_bytes: int) -> None:
    made = filled(compression)
    parts = [RecordBatch(part.build()) for part in made.parts(size_bytes)]
    assert len(parts) >= 2
    assert {part.compression for part in parts} == {compression}
    found = [record for part in parts for record in part.records()]
    whole = RecordBatch(bytes(made.sealed())).records()
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in found] == [
        (r.timestamp_ms, r.key, r.value, r.headers) for r in whole
    ]
