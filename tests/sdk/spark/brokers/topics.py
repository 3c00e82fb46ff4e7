"""Topics on a reference broker, for tests with hand-built logs that have gaps, transactions and damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkawire import NewTopic, TopicPartition
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.brokers.options import WireOptions, parse_options
from kafkawire.sdk.spark.brokers.ranges import PartitionRange
from kafkawire.sdk.spark.brokers.reading import ReadOptions, read_ranges
from kafkawire.sync import Admin, Producer
from kafkawire.testing import Broker
from tests.sdk.spark.segments.logs import write_segment

ORDERS = TopicPartition("orders", 0)

#: Short pauses, since tests wait only for things that happen soon.
QUICK = {"kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "10", "fetchOffset.retryIntervalMs": "1"}


@contextmanager
def stored(folder: Path, *batches: bytes) -> Iterator[Broker]:
    """Start a broker whose partition orders-0 has these batches."""
    with Broker(folder) as broker:
        create(broker, orders=1)
        broker.kill()  # recovery must read the batches: their transactions are only in the log
        for path in (folder / "orders-0").glob("0*"):
            path.unlink()
        write_segment(folder / "orders-0", batches)
        broker.start()
        yield broker


def create(broker: Broker, **topics: int) -> None:
    """Create topics that keep all records, with this many partitions."""
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, count, configs={"retention.ms": "-1"}) for name, count in topics.items()])


def produce(broker: Broker, topic: str, partition: int, count: int, **options: Any) -> None:
    """Append records whose values are their numbers."""
    with Producer(broker.bootstrap, **options) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition)


def wire_options(broker: Broker, **given: str) -> WireOptions:
    """Return options for a broker; the topic is orders unless the options name another."""
    topics = {} if {"subscribe", "assign", "subscribePattern"} & given.keys() else {"subscribe": "orders"}
    return parse_options({"kafka.bootstrap.servers": broker.bootstrap, **QUICK, **topics, **given})


def read_options(broker: Broker, *names: str, poll_timeout_ms: int = 30_000, **given: Any) -> ReadOptions:
    """Return options for reading from a broker: columns and attributes of `ReadOptions`; the rest go to the client."""
    own = {name: given.pop(name) for name in ("fails_on_loss", "attempts") if name in given}
    client = {name.replace("_", "."): str(value) for name, value in given.items()}
    settings = ClientSettings({"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": "20", **client})
    return ReadOptions(settings, names or ("offset",), poll_timeout_ms, retry_interval_ms=1, **own)


def offsets_of(options: ReadOptions, start: int, end: int, **given: Any) -> list[int]:
    """Return the offsets that a task reads from orders-0."""
    found = read_ranges([PartitionRange(ORDERS, start, end, **given)], options)
    return [offset for rows in found for offset in rows.column("offset").to_pylist()]
