"""A batch is sealed with its producer's numbers, again after they change, and divided without losing a record."""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.retry import Attempts, Backoff
from kafkawire.sdk.producer.batch import ProducerBatch, ProducerId
from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.records import BatchBuilder, Compression, RecordBatch


def batch(compression: Compression = Compression.NONE, count: int = 10) -> ProducerBatch:
    queue = PartitionQueue(TopicPartition("t", 4))
    attempts = Attempts(Backoff(1, 1, lambda: 0.5), 700)
    made = ProducerBatch(queue, (1,), BatchBuilder(4096, compression), attempts, 4096, 0)
    for number in range(count):
        made.builder.append(number, b"k", b"%d" % number + b"x" * 100, [("h", b"1")])
    return made


def test_about() -> None:
    assert str(batch()) == "10 records for t-4"
    assert str(batch(count=1)) == "1 record for t-4"
    assert batch().deadline_ms == 700


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_new_numbers(compression: Compression) -> None:
    made = batch(compression)
    for producer, sequence in ((ProducerId(5, 1), 3), (ProducerId(5, 2), 0)):
        made.stamp(producer, sequence)
        sealed = RecordBatch(bytes(made.sealed()))
        assert (sealed.producer_id, sealed.producer_epoch, sealed.base_sequence) == (*producer[:2], sequence)
        assert len(sealed.records()) == 10


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("size_bytes", [100, 400, 1000])
def test_parts(compression: Compression, size_bytes: int) -> None:
    made = batch(compression)
    parts = [RecordBatch(part.build()) for part in made.parts(size_bytes)]
    assert len(parts) >= 2
    assert {part.compression for part in parts} == {compression}
    found = [record for part in parts for record in part.records()]
    whole = RecordBatch(bytes(made.sealed())).records()
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in found] == [
        (r.timestamp_ms, r.key, r.value, r.headers) for r in whole
    ]
