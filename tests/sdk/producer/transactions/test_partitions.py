"""A partition gets records once it has been added (version 1) or at once (version 2), but never during a refusal."""

from __future__ import annotations

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.producer.transactions.partitions import TransactionPartitions
from kafkawire.sdk.routing.partitions import TopicPartition

FIRST, SECOND = (PartitionQueue(TopicPartition("t", number)) for number in range(2))


def test_version_1() -> None:
    partitions = TransactionPartitions("x")
    partitions.begin(1)
    assert not partitions.joins_by_itself
    assert not partitions.may_send(FIRST)
    assert not partitions.may_send(FIRST)
    assert not partitions.may_send(SECOND)
    assert partitions.take_wanted() == [FIRST, SECOND]
    assert partitions.take_wanted() == []
    partitions.add([FIRST])
    assert partitions.take_added() == [FIRST]
    assert partitions.take_added() == []
    assert partitions.may_send(FIRST)
    assert not partitions.may_send(SECOND)
    assert list(partitions.joined) == [FIRST]


def test_version_2() -> None:
    partitions = TransactionPartitions("x")
    partitions.begin(2)
    assert partitions.joins_by_itself
    assert partitions.may_send(FIRST)
    assert list(partitions.joined) == [FIRST]
    assert not partitions.wanted


def test_a_refusal_and_another_transaction() -> None:
    partitions = TransactionPartitions("x")
    partitions.begin(2)
    partitions.may_send(FIRST)
    partitions.refusal = KafkaWireError("aborted")
    assert not partitions.may_send(FIRST)
    assert not partitions.may_send(SECOND)
    partitions.begin(1)
    assert partitions.refusal is None
    assert not partitions.joined
    assert not partitions.may_send(FIRST), "the partition was part of the transaction before"
    partitions.add([SECOND])
    partitions.begin(1)
    assert partitions.take_wanted() == []
    assert partitions.take_added() == []
    assert not partitions.joined
