"""A stream returns each record once, despite limits, restarts, new partitions and recreated topics.

Method: call the reader in the order in which Spark calls it, with a new reader for a restarted query; Spark does not
run. The test moves the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.testing import Broker

pytest.importorskip("pyarrow")
pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="this pyspark has no limits for streams in Python: 4.2 has"
)

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kafkawire.sdk.spark.brokers import stream
from kafkawire.sdk.spark.brokers.cluster import Cluster
from kafkawire.sdk.spark.brokers.stream import KafkaWireStreamReader
from kafkawire.sync import Admin
from tests.sdk.spark.brokers.topics import create, produce, wire_options
from tests.sdk.spark.stream_query import Rows, StreamQuery, rows_of


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True) as node:
        create(node, orders=2)
        produce(node, "orders", 0, 100)
        produce(node, "orders", 1, 20)
        yield node


class Query(StreamQuery):
    """A query over a broker's topics, by default over all records in them."""

    def __init__(self, broker: Broker, **options: str) -> None:
        self.broker = broker
        super().__init__({"startingOffsets": "earliest", **options})

    def new_reader(self) -> KafkaWireStreamReader:
        return KafkaWireStreamReader(wire_options(self.broker, **self.options), ("partition", "offset"))


def test_all(broker: Broker) -> None:
    query = Query(broker)
    assert query.take_all() == [120]
    assert query.rows == rows_of(100, 20)
    assert query.offsets == [{"orders": {"0": 0, "1": 0}}, {"orders": {"0": 100, "1": 20}}]
    assert query.reader.reportLatestOffset() == query.offsets[-1]
    assert query.reader.partitions(query.offsets[-1], query.offsets[-1]) == []
    query.reader.stop()


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"maxOffsetsPerTrigger": "50"}, [49, 49, 22]),
        ({"maxOffsetsPerTrigger": "1000"}, [120]),
        ({"maxOffsetsPerTrigger": "60", "minPartitions": "4"}, [60, 60]),
    ],
)
def test_limits(broker: Broker, options: dict[str, str], sizes: list[int]) -> None:
    """Each micro-batch stays near its limit and reads from every partition; a new reader may plan any micro-batch."""
    query = Query(broker, **options)
    found = []
    while query.plan():
        rows = query.run()
        query.reader.stop()
        query.start()
        assert query.run() == rows  # a query repeats it after a crash
        query.rows += rows
        found.append(len(rows))
    assert sorted(query.rows) == rows_of(100, 20)
    assert found == sizes
    query.reader.stop()


def test_default_limits(broker: Broker) -> None:
    for options, expected in [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "6"}, ReadMaxRows(6)),
    ]:
        reader = KafkaWireStreamReader(wire_options(broker, **options), ("offset",))
        assert reader.getDefaultReadLimit() == expected


@pytest.mark.parametrize("more", [{}, {"maxOffsetsPerTrigger": "100"}])
def test_least(broker: Broker, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]) -> None:
    """After the first micro-batch, each one waits for enough records, but not for too long."""
    now_ms = 5_000_000
    monkeypatch.setattr(stream, "monotonic_ms", lambda: now_ms)
    query = Query(broker, minOffsetsPerTrigger="10", maxTriggerDelay="60s", assign='{"orders":[1]}', **more)
    assert query.take_all() == [20]
    produce(broker, "orders", 1, 9)
    assert query.take_all() == []
    produce(broker, "orders", 1, 1)
    assert query.take_all() == [10]
    produce(broker, "orders", 1, 2)
    now_ms += 59_999
    assert query.take_all() == []
    now_ms += 1
    assert query.take_all() == [2]
    produce(broker, "orders", 1, 3)
    query.reader.prepareForTriggerAvailableNow()
    assert query.take_all() == [3]
    query.reader.stop()


def test_available_now(broker: Broker) -> None:
    query = Query(broker, maxOffsetsPerTrigger="50")
    query.reader.prepareForTriggerAvailableNow()
    produce(broker, "orders", 1, 20)
    query.take_all()
    assert sorted(query.rows) == rows_of(100, 20)
    query.reader.stop()
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    query.take_all()
    assert sorted(query.rows) == rows_of(100, 40)
    query.reader.stop()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": '{"orders":{"0":98,"1":-2}}'}, [(0, 98), (0, 99), *((1, offset) for offset in range(20))]),
        ({"startingTimestamp": "0"}, rows_of(100, 20)),
    ],
)
def test_beginnings(broker: Broker, options: dict[str, str], expected: Rows) -> None:
    query = Query(broker, **options)
    query.take_all()
    assert query.rows == expected
    query.reader.stop()


def test_topic_that_comes_later(broker: Broker) -> None:
    """A new partition is read from its beginning, wherever the query started."""
    query = Query(broker, subscribePattern="orders|later", startingOffsets="latest")
    assert query.take_all() == []
    create(broker, later=1)
    produce(broker, "later", 0, 3)
    assert query.take_all() == [3]
    assert query.offsets[-1] == {"later": {"0": 3}, "orders": {"0": 100, "1": 20}}
    query.reader.stop()


def test_topic_that_never_was(broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match="subscribe='others': available topics: "):
        Query(broker, subscribe="orders,others")


# Loss.


def delete(broker: Broker, topic: str) -> None:
    with Admin(broker.bootstrap) as admin:
        admin.delete_topics(topic)


@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": "1000"}])
def test_lost_topic(broker: Broker, options: dict[str, str]) -> None:
    query = Query(broker, **options)
    query.take_all()
    delete(broker, "orders")
    query.plan()
    with pytest.raises(
        LocalProtocolError, match="orders-0 no longer exists, but was to be read from offset 100 onward; with failOn"
    ):
        query.run()
    query.start_again(failOnDataLoss="false")
    assert query.run() == []
    create(broker, orders=1)
    produce(broker, "orders", 0, 7)
    assert query.take_all() == [7]
    query.reader.stop()


@pytest.mark.parametrize("is_available_now", [False, True])
def test_lost_partition_that_was_assigned(broker: Broker, is_available_now: bool) -> None:
    create(broker, others=1)
    produce(broker, "others", 0, 3)
    query = Query(broker, assign='{"orders":[0],"others":[0]}')
    query.take_all()
    delete(broker, "others")
    query.plan()
    with pytest.raises(
        LocalProtocolError, match="others-0 no longer exists, but was to be read from offset 3 onward; with failOn"
    ):
        query.run()
    query.start_again(failOnDataLoss="false")
    if is_available_now:
        query.reader.prepareForTriggerAvailableNow()
    assert query.run() == []
    produce(broker, "orders", 0, 7)
    if not is_available_now:
        assert query.take_all() == [7]
    query.start_again(assign='{"orders":[0,9]}')
    with pytest.raises(ConfigurationError, match="assign='orders-9': the cluster has no such partition"):
        query.plan()
    query.reader.stop()


def test_topic_that_is_made_anew(broker: Broker) -> None:
    """The recreated topic has fewer records than were read; as in the connector, the query continues at its end."""
    query = Query(broker, assign='{"orders":[0]}')
    query.take_all()
    delete(broker, "orders")
    create(broker, orders=1)
    produce(broker, "orders", 0, 5)
    query.plan()
    with pytest.raises(LocalProtocolError, match="orders-0 ends at offset 5, but was to be read from 100 onward"):
        query.run()
    query.start_again(failOnDataLoss="false")
    assert query.run() == []
    produce(broker, "orders", 0, 2)
    assert query.take_all() == [2]
    query.reader.stop()


def test_topic_that_goes_before_a_micro_batch_is_read(broker: Broker) -> None:
    """The query does not wait for records that cannot come, even after a restart."""
    query = Query(broker)
    query.plan()
    delete(broker, "orders")
    with pytest.raises(LocalProtocolError, match="orders-0 no longer exists, but was to be read from offset 0 to 100"):
        query.run()
    query.start_again(failOnDataLoss="false")
    assert query.run() == []
    query.reader.stop()


def test_new_partition_that_begins_late(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that a new partition lost before the query noticed the partition count as a loss."""
    monkeypatch.setattr(Cluster, "earliest", lambda _, partitions: dict.fromkeys(partitions, 5))
    query = Query(broker)
    query.offsets = [{"orders": {"0": 100}}, {"orders": {"0": 100, "1": 20}}]
    with pytest.raises(LocalProtocolError, match="orders-1 is new and begins at offset 5 instead of 0"):
        query.run()
    query.start_again(failOnDataLoss="false")
    assert query.run() == [(1, offset) for offset in range(5, 20)]
    query.reader.stop()


# Values that are passed on.


def test_offsets_are_text_as_the_connector_has_it() -> None:
    """Partitions are in numerical order, so that equal offsets have equal text."""
    positions = {TopicPartition(topic, number): 7 for topic, number in [("b", 10), ("b", 9), ("a-1", 0)]}
    named = stream._named(positions)
    assert json.dumps(named) == '{"a-1": {"0": 7}, "b": {"9": 7, "10": 7}}'
    assert stream._positions(named) == positions
    assert stream._named({}) == stream._positions({}) == {}


def test_a_checkpoint_with_a_name_for_each_partition(broker: Broker) -> None:
    """The query continues with the remaining records."""
    assert stream._positions({"a-b-1": 3, "a-0": 0}) == {TopicPartition("a-b", 1): 3, TopicPartition("a", 0): 0}
    query = Query(broker, maxOffsetsPerTrigger="20")
    query.offsets = [{"orders-0": 90, "orders-1": 5}]  # type: ignore[dict-item]  # the old format
    assert query.take_all() == [20, 5]
    assert sorted(query.rows) == [(0, offset) for offset in range(90, 100)] + [(1, offset) for offset in range(5, 20)]
    query.reader.stop()


def test_what_is_known_is_told(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader passes its offsets on, so a leader whose end is before them is asked again."""
    query = Query(broker, assign='{"orders":[0]}')
    told = []

    def latest(self: Cluster, partitions: object, known: object = None) -> dict[TopicPartition, int]:
        told.append(known)
        return {TopicPartition("orders", 0): 100}

    monkeypatch.setattr(Cluster, "latest", latest)
    query.reader.latestOffset({"orders": {"0": 90}}, ReadAllAvailable())
    assert told == [{TopicPartition("orders", 0): 90}]
    query.reader.stop()


def test_records_of_a_task(broker: Broker) -> None:
    query = Query(broker, maxRecordsPerPartition="25")
    query.plan()
    tasks = query.reader.partitions(*query.offsets)
    assert [[each.size for each in task.value] for task in tasks] == [[25], [25], [25], [25], [20]]
    query.reader.stop()
