"""The data sources return exactly the rows of Spark's Kafka connector, and the records that kafka-python decodes.

Method: write records to Apache Kafka with every codec, with and without keys, values and headers, in committed and
aborted transactions, and have Kafka compact them. Then Spark reads the topics through its connector and through
`kafkawire`, with the same options, and the node's files with `kafka_segments`; whole rows of batch queries and streams
are compared.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic, Producer
from kafkawire.sdk.records import Compression
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import alter, cleaned_to, until
from tests.kafka.connector import connector_jars
from tests.kafka.topics import await_markers, create
from tests.spark_session import local_session

pytest.importorskip("pyspark.sql", reason="pyspark is not installed; install the extra `spark`")

pytestmark = [
    pytest.mark.timeout(400),
    # These tests ignore pyspark's own warnings with the newest pandas and Python.
    pytest.mark.filterwarnings("ignore"),
]

START_MS = 1_700_000_000_000
CODECS, STAMPED, COMPACTED, EMPTY = "rows-codecs", "rows-stamped", "rows-compacted", "rows-empty"
TOPICS = (CODECS, STAMPED, COMPACTED, EMPTY)
KEPT = {"retention.ms": "-1"}
SMALL = {"internal.segment.bytes": "20000"}
SETTINGS = {"log.cleaner.backoff.ms": "300", "log.cleaner.threads": "1"}
PARTITIONS = 2

HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("one", b"1")],
    [("one", b"1"), ("one", None), ("", b""), ("\u00e9", b"\xff")],
]

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from kafkawire.spark import KafkaSegments, KafkaWire

    with local_session(spark_jars=",".join(map(str, connector_jars()))) as session:
        session.dataSource.register(KafkaSegments)
        session.dataSource.register(KafkaWire)
        yield session


@pytest.fixture(scope="module")
def node() -> Iterator[ApacheKafka]:
    with ApacheKafka(settings=SETTINGS) as node:
        asyncio.run(asyncio.wait_for(fill(node.bootstrap), 120))
        end = active_segment(node)
        alter(node, COMPACTED, {"min.cleanable.dirty.ratio": "0"})
        until(lambda: cleaned_to(node, COMPACTED) >= end, "Apache Kafka has not cleaned")
        alter(node, COMPACTED, {"min.cleanable.dirty.ratio": "1"})
        yield node


def active_segment(node: ApacheKafka) -> int:
    """Return the base offset of the compacted partition's last segment."""
    return max(int(path.stem) for path in (node.data_dir / f"{COMPACTED}-0").glob("*.log"))


async def fill(bootstrap: str) -> None:
    """Create the topics, and write the records to read."""
    held = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "delete.retention.ms": "1000"}
    await create(
        bootstrap,
        NewTopic(CODECS, PARTITIONS, 1, configs=KEPT | SMALL),
        NewTopic(STAMPED, 1, 1, configs=KEPT | {"message.timestamp.type": "LogAppendTime"}),
        NewTopic(COMPACTED, 1, 1, configs=KEPT | SMALL | held),
        NewTopic(EMPTY, 1, 1, configs=KEPT),
    )
    chance = random.Random(7)
    for codec in Compression:
        async with Producer(bootstrap, compression=codec, batch_size=4000) as producer:
            for number in range(400):
                partition = number % PARTITIONS
                producer.send(CODECS, partition=partition, timestamp_ms=START_MS + number, **record(chance, number))
        async with Producer(bootstrap, compression=codec, transactional_id=f"rows-{codec.name}") as producer:
            for number in range(12):
                await producer.begin_transaction()
                for topic, partition in ((CODECS, number % PARTITIONS), (COMPACTED, 0)):
                    for _ in range(chance.randint(1, 9)):
                        given = {**record(chance, number), "key": b"key %d" % chance.randrange(50)}
                        producer.send(topic, partition=partition, timestamp_ms=START_MS + number, **given)
                await producer.flush()  # records that were never sent would not appear as aborted
                await (producer.commit_transaction() if chance.random() < 0.5 else producer.abort_transaction())
        async with Producer(bootstrap, compression=codec, batch_size=4000) as producer:
            for number in range(300):
                given = {**record(chance, number), "key": b"key %d" % chance.randrange(300)}
                producer.send(COMPACTED, partition=0, timestamp_ms=START_MS + number, **given)
    async with Producer(bootstrap) as producer:
        for number in range(50):
            producer.send(STAMPED, **record(chance, number))
    # A partition may end with records that are invisible to readers.
    async with Producer(bootstrap, transactional_id="rows-last") as producer:
        await producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(CODECS, b"aborted", partition=partition)
        await producer.flush()
        await producer.abort_transaction()
    for topic in (CODECS, COMPACTED):
        await await_markers(bootstrap, topic)


def record(chance: random.Random, number: int) -> dict[str, Any]:
    """Return a record's key, value and headers, any of which may be missing or empty."""
    return {
        "key": chance.choice([None, b"", b"key-%d" % number]),
        "value": chance.choice([None, b"", b"value %d " % number * chance.randint(1, 40)]),
        "headers": chance.choice(HEADERS),
    }


def rows_of(frame: Any) -> Rows:
    """Return the rows, keyed by partition and offset, as values that can be compared."""
    columns = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]
    return sorted((plain(row) for row in frame.select(*columns).collect()), key=lambda row: row[:3])


def plain(row: Any) -> tuple[Any, ...]:
    headers = None if row.headers is None else [(header.key, header.value) for header in row.headers]
    return (*(row[name] for name in ("topic", "partition", "offset")), *row[3:7], headers)


def frame_of(reader: Any, name: str, node: ApacheKafka, **options: Any) -> Any:
    reader = reader.format(name).option("kafka.bootstrap.servers", node.bootstrap).option("includeHeaders", True)
    return reader.options(**options).load()


CODECS_FROM = '{"rows-codecs":{"0":100,"1":-2}}'
CODECS_TO = '{"rows-codecs":{"0":333,"1":-1}}'
COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": ",".join(TOPICS)},
        {"subscribe": ",".join(TOPICS), **COMMITTED},
        {"subscribePattern": "rows-.*", "minPartitions": 9},
        {"assign": '{"rows-codecs":[1],"rows-compacted":[0]}', "maxRecordsPerPartition": 97, **COMMITTED},
        {"subscribe": CODECS, "startingOffsets": CODECS_FROM, "endingOffsets": CODECS_TO},
        {"subscribe": CODECS, "startingOffsets": CODECS_FROM, "endingOffsets": CODECS_TO, **COMMITTED},
        {"subscribe": CODECS, "startingTimestamp": START_MS + 150, "endingTimestamp": START_MS + 350},
        {"subscribe": COMPACTED, "endingOffsets": '{"rows-compacted":{"0":1500}}', "minPartitions": 7},
        {
            "subscribe": CODECS,
            "startingOffsetsByTimestamp": '{"rows-codecs":{"0":9999999999999,"1":1700000000200}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"subscribe": EMPTY},
    ],
)
def test_batch(spark: Any, node: ApacheKafka, options: dict[str, Any]) -> None:
    theirs, ours = (frame_of(spark.read, name, node, **options) for name in ("kafka", "kafkawire"))
    assert ours.schema == theirs.schema
    expected = rows_of(theirs)
    assert rows_of(ours) == expected
    assert bool(expected) != (options.get("subscribe") == EMPTY)


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_segments(spark: Any, node: ApacheKafka, level: str) -> None:
    topics = ",".join(TOPICS)
    theirs = frame_of(spark.read, "kafka", node, subscribe=topics, **{"kafka.isolation.level": level})
    reader = spark.read.format("kafka_segments").option("includeHeaders", True).option("subscribe", topics)
    ours = reader.option("isolationLevel", level).load(str(node.data_dir))
    assert ours.schema == theirs.schema
    assert rows_of(ours) == rows_of(theirs)


def test_what_is_compared(spark: Any, node: ApacheKafka) -> None:
    """The topic that is compared has gaps, aborted records, and all kinds of keys, values and headers."""
    rows = rows_of(frame_of(spark.read, "kafkawire", node, subscribe=f"{CODECS},{COMPACTED}"))
    committed = rows_of(frame_of(spark.read, "kafkawire", node, subscribe=f"{CODECS},{COMPACTED}", **COMMITTED))
    assert len(committed) < len(rows)
    offsets = [row[2] for row in rows if row[0] == COMPACTED]
    assert len(offsets) < (offsets[-1] - offsets[0]) * 0.9
    for column in (3, 4):
        assert {None, b""} < {row[column] for row in rows}
    assert {len(row[7] or ()) for row in rows} == {len(headers) for headers in HEADERS}


def test_kafka_python(spark: Any, node: ApacheKafka) -> None:
    """Another decoder finds the same records in the same files."""
    records = pytest.importorskip("kafka.record")
    found: Rows = []
    for topic, partition in [(CODECS, 0), (CODECS, 1), (STAMPED, 0), (COMPACTED, 0)]:
        for path in sorted((node.data_dir / f"{topic}-{partition}").glob("*.log")):
            batches = records.MemoryRecords(path.read_bytes())
            while (batch := batches.next_batch()) is not None:
                if batch.is_control_batch:
                    continue
                for each in batch:
                    headers = [(key, value) for key, value in each.headers] or None
                    time = each.timestamp, each.timestamp_type
                    found.append((topic, partition, each.offset, each.key, each.value, *time, headers))
    reader = spark.read.format("kafka_segments").option("includeHeaders", True).option("subscribe", ",".join(TOPICS))
    rows = rows_of(reader.load(str(node.data_dir)))
    assert sorted(found, key=lambda row: row[:3]) == [
        (*row[:5], round(row[5].timestamp() * 1000), *row[6:]) for row in rows
    ]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_stream(spark: Any, node: ApacheKafka, tmp_path: Path, level: str) -> None:
    """Both streams end at the same offsets with the same rows, in the same micro-batches."""
    options = {
        "subscribe": f"{CODECS},{COMPACTED}",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 1500,
        "kafka.isolation.level": level,
    }
    written, sizes = [], []
    for name in ("kafka", "kafkawire"):
        frame = frame_of(spark.readStream, name, node, **options)
        folder = tmp_path / name
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder))
        )
        try:
            assert query.awaitTermination(200)
            sizes.append([each.numInputRows for each in query.recentProgress if each.numInputRows])
        finally:
            query.stop()
        written.append(rows_of(spark.read.parquet(str(folder))))
    assert written[0] == written[1]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) > 1
    expected = frame_of(spark.read, "kafka", node, **{**options, "maxOffsetsPerTrigger": 1 << 30})
    assert written[0] == rows_of(expected)


def test_checkpoints(spark: Any, node: ApacheKafka, tmp_path: Path) -> None:
    """A query continues where the other one ended, because the text form of the offsets is the same."""
    asyncio.run(create(node.bootstrap, NewTopic("handed-on", PARTITIONS, configs=KEPT)))
    ends, total = [], 0
    for name, count in [("kafka", 10), ("kafkawire", 7), ("kafkawire", 0), ("kafka", 5)]:
        asyncio.run(produce(node.bootstrap, "handed-on", count))
        total += count
        frame = frame_of(spark.readStream, name, node, subscribe="handed-on", startingOffsets="earliest")
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        try:
            assert query.awaitTermination(200)
            ends += [each.sources[0].endOffset for each in query.recentProgress if each.numInputRows]
        finally:
            query.stop()
        assert spark.read.parquet(str(tmp_path / "rows")).count() == total
    assert [json.loads(end) for end in ends] == [{"handed-on": {"0": end, "1": 0}} for end in (10, 17, 22)]


async def produce(servers: str, topic: str, count: int) -> None:
    async with Producer(servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)
