"""Fetching stored batches returns the bytes of Apache Kafka's files, even for internal topics.

Method: use a node that has written every kind of batch, with transactions and compaction, and read each of its
partitions from the leader and from the segments.
"""

from __future__ import annotations

from itertools import chain

from kafkawire.sdk.records.stored import Memory, Stored, read_stored
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.audit.broker_facts import broker_input
from kafkawire.sdk.spark.audit.store import Manifest
from kafkawire.sdk.spark.brokers.options import parse_options
from kafkawire.sdk.spark.brokers.ranges import PartitionRange
from kafkawire.sdk.spark.brokers.stored_batches import StoredBatches
from kafkawire.sdk.spark.selection import Offsets
from tests.kafka.apache import ApacheKafka


def test_as_in_the_files(filled_kafka: ApacheKafka) -> None:
    options = parse_options(broker_input({"bootstrap.servers": filled_kafka.bootstrap}, None, Manifest(), "").options)
    assert options.starting is not None
    assert options.ending is not None
    assert isinstance(options.starting.place, Offsets)
    assert isinstance(options.ending.place, Offsets)
    starts, ends = options.starting.place.named, options.ending.place.named
    controls = batches = 0
    for partition, end in ends.items():
        in_files = list(chain.from_iterable(batches_of(filled_kafka, partition)))
        with StoredBatches(options.client, 30_000) as reader:
            found = list(reader.read(PartitionRange(partition, starts[partition], end)))
        assert all(isinstance(each, Stored) for each in found), partition
        fetched = [bytes(each.batch.data) for each in found if isinstance(each, Stored)]
        assert fetched == in_files, partition
        batches += len(fetched)
        controls += sum(each.batch.is_control for each in found if isinstance(each, Stored))
    assert {each.topic for each in ends} >= {"__consumer_offsets", "__transaction_state"}
    assert controls > 0
    assert batches > controls


def batches_of(node: ApacheKafka, partition: TopicPartition) -> list[list[bytes]]:
    """Return the batches of each segment."""
    return [
        [
            bytes(each.batch.data)
            for each in read_stored(Memory(path.read_bytes()), is_growing=True)
            if isinstance(each, Stored)
        ]
        for path in sorted((node.data_dir / str(partition)).glob("*.log"))
    ]
