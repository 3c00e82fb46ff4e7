"""Partitions wait for their leader, for their time or for new metadata, and are found without looking at others."""

from __future__ import annotations

from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.producer.sender import Schedule
from kafkawire.sdk.routing.partitions import TopicPartition


def queues(count: int) -> list[PartitionQueue]:
    return [PartitionQueue(TopicPartition("t", number)) for number in range(count)]


def test_a_leader_serves_one_after_the_other() -> None:
    schedule = Schedule()
    first, second, other = queues(3)
    schedule.put_ready(first, 1)
    schedule.put_ready(second, 1)
    schedule.put_ready(other, 2)
    assert schedule.first(1) is first
    schedule.put_ready(first, 1)
    assert schedule.first(1) is second
    schedule.take_out(second)
    schedule.take_out(first)
    assert schedule.first(1) is None
    assert list(schedule.ready) == [2]


def test_without_a_leader() -> None:
    schedule = Schedule()
    (queue,) = queues(1)
    schedule.put_ready(queue, None)
    assert list(schedule.without_leader) == [queue]
    schedule.put_ready(queue, 1)
    assert not schedule.without_leader
    schedule.put_ready(queue, 2)
    assert list(schedule.ready) == [2]


def test_what_has_a_batch_to_send_now() -> None:
    schedule = Schedule()
    without_leader, ready, other, later = queues(4)
    schedule.put_ready(without_leader, None)
    schedule.put_ready(ready, 1)
    schedule.put_ready(other, 2)
    schedule.put_later(later, 10)
    assert schedule.placed == [without_leader, ready, other]


def test_later() -> None:
    schedule = Schedule()
    first, second = queues(2)
    schedule.put_later(first, 30)
    schedule.put_later(second, 20)
    schedule.put_later(first, 10)
    schedule.put_later(first, 10)
    assert schedule.due_ms() == 10
    assert list(schedule.due(9)) == []
    assert list(schedule.due(20)) == [first, second]
    assert schedule.due_ms() is None
    assert list(schedule.due(99)) == []
