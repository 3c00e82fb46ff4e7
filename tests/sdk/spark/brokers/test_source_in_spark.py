"""Spark reads topics through the data source, in batch queries and in streams that are stopped and restarted.

Method: use a small local Spark, and a reference broker in this process. The tests are skipped if Spark or Java is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic
from kafkawire.sync import Admin, Producer
from kafkawire.testing import Broker

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

# The first session starts a JVM, and the first query starts the workers.
pytestmark = pytest.mark.timeout(300)

TIME_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True) as node:
        yield node


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return a new topic for each test, with 100 records in each of two partitions."""
    name = request.node.name.replace("[", "-").rstrip("]")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(NewTopic(name, 2, configs={"retention.ms": "-1"}))
    produce(broker, name, 0, 100)
    return str(name)


def produce(broker: Broker, topic: str, first: int, end: int) -> None:
    with Producer(broker.bootstrap) as producer:
        for partition in (0, 1):
            for number in range(first, end):
                headers = [("number", b"%d" % number)]
                value, timestamp_ms = b"value %d" % number, TIME_MS + number
                producer.send(topic, value, key=b"key", partition=partition, headers=headers, timestamp_ms=timestamp_ms)


@pytest.fixture
def source(spark: Any) -> Any:
    from kafkawire.spark import KafkaWire

    spark.dataSource.register(KafkaWire)
    return spark


def reading(reader: Any, broker: Broker, topic: str, **options: Any) -> Any:
    """Return one of Spark's readers with the options that every query needs."""
    found = reader.format("kafkawire").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    for name, value in options.items():
        found = found.option(name, value)
    return found


@pytest.mark.smoke
def test_batch(source: Any, broker: Broker, topic: str) -> None:
    records = reading(source.read, broker, topic, includeHeaders=True).load()
    assert records.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    counted = records.groupBy("topic", "partition").count().orderBy("partition").collect()
    assert [tuple(row) for row in counted] == [(topic, 0, 100), (topic, 1, 100)]
    row = records.where("partition = 1 and offset = 55").first()
    assert (row.key, row.value, row.timestamp.timestamp()) == (b"key", b"value 55", (TIME_MS + 55) / 1000)
    assert [tuple(header) for header in row.headers] == [("number", b"55")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.sql.timestampType", "TIMESTAMP_NTZ"), ("spark.sql.ansi.enforceReservedKeywords", "true")],
)
def test_settings_that_change_how_columns_are_declared(
    source: Any, broker: Broker, setting: Any, name: str, value: str
) -> None:
    topic = f"of-{value}"
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, 2, configs={"retention.ms": "-1"}))
    produce(broker, topic, 0, 100)
    setting(name, value)
    times = [row.timestamp.timestamp() for row in reading(source.read, broker, topic).load().collect()]
    assert sorted(times) == [(TIME_MS + number) / 1000 for number in range(100) for _ in (0, 1)]


def test_schema_and_options(source: Any, broker: Broker, topic: str) -> None:
    reader = reading(source.read, broker, topic, minPartitions=6, startingTimestamp=TIME_MS + 90)
    rows = sorted(tuple(row) for row in reader.schema("offset bigint, value binary").load().collect())
    assert rows == sorted((offset, b"value %d" % offset) for offset in range(90, 100) for _ in (0, 1))


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("startingOffset", "earliest", "no such option; did you mean startingOffsets"),
        ("kafka.auto.offset.reset", "latest", "use startingOffsets"),
        ("startingOffsets", "latest", "a batch query would read nothing"),
        ("mode", "PERMISSIVE", "a consumer cannot continue after a damaged batch"),
    ],
)
def test_refused(source: Any, broker: Broker, option: str, value: str, reason: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=reason):
        reading(source.read, broker, "orders").option(option, value).load().collect()


def test_errors_of_one_line(source: Any, broker: Broker) -> None:
    """docs/spark.md promises this."""
    from pyspark.errors import AnalysisException

    name = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
    source.conf.set(name, "true")
    try:
        with pytest.raises(AnalysisException) as caught:
            reading(source.read, broker, "orders", startingOffset="earliest").load()
    finally:
        source.conf.unset(name)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("startingoffset='earliest': no such option; did you mean startingOffsets?")
    assert len(lines) <= 2


def test_refused_stream(source: Any, broker: Broker, tmp_path: Path) -> None:
    """No second error follows the real one, even though Spark sees the error only when it asks for the reader."""
    from pyspark.errors import StreamingQueryException

    rows = reading(source.readStream, broker, "orders", startingOffset="x").schema("value binary").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        with pytest.raises(StreamingQueryException, match="startingoffset='x': no such option") as caught:
            query.awaitTermination(120)
    finally:
        query.stop()
    assert "UnboundLocalError" not in str(caught.value)


def test_no_such_topic(source: Any, broker: Broker) -> None:
    from pyspark.errors import PySparkException

    reader = reading(source.read, broker, "others", **{"fetchOffset.retryIntervalMs": 1})
    with pytest.raises(PySparkException, match="subscribe='others': available topics: "):
        reader.load().collect()


def test_secrets_are_not_in_errors(source: Any, broker: Broker) -> None:
    from pyspark.errors import PySparkException

    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me"}
    reader = reading(source.read, broker, "orders", **login, **{"kafka.sasl.password": "do not tell"})
    with pytest.raises(PySparkException) as caught:
        reader.option("fetchOffset.numRetries", 1).load().collect()
    assert "do not tell" not in str(caught.value)
    records = reader.option("startingOffset", 1)
    with pytest.raises(PySparkException) as caught:
        records.load()
    assert "do not tell" not in str(caught.value)


@pytest.mark.smoke
def test_stream(source: Any, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Queries that read what is available are restarted, one of them after a failure halfway through."""
    from pyspark.errors import StreamingQueryException

    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"

    def run(fail_at: int | None = None) -> None:
        reader = reading(source.readStream, broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger=70)

        def write(batch: Any, number: int) -> None:
            if number == fail_at:
                raise ZeroDivisionError("the sink fails")
            batch.write.mode("overwrite").parquet(str(rows / str(number)))

        query = reader.schema("partition int, offset bigint").load().writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        try:
            fails = nullcontext() if fail_at is None else pytest.raises(StreamingQueryException, match="sink fails")
            with fails:
                assert query.awaitTermination(120)
        finally:
            query.stop()

    run(fail_at=1)
    run()
    produce(broker, topic, 100, 150)
    run()
    found = source.read.parquet(*(str(path) for path in sorted(rows.iterdir())))
    expected = [(partition, offset) for partition in (0, 1) for offset in range(150)]
    assert sorted((row.partition, row.offset) for row in found.collect()) == expected
    assert len(list(rows.iterdir())) >= 5
