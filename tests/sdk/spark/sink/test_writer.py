"""Spark writes queries and streams to the reference broker, and leaves the right traces of failed and repeated tasks.

Method: use a small local Spark that repeats tasks, and a broker in this process; in the end, read the topic with a
consumer. The tests are skipped if Spark or Java is missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.testing import Broker
from tests.sdk.spark.sink.topics import row_id, written

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from pyspark.errors import AnalysisException, PythonException

# The first session starts a JVM, and the first query starts the workers.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=2) as running:
        yield running


@pytest.fixture
def source(spark: Any) -> Any:
    """Return a Spark session in which the sink is registered by name."""
    from pyspark import TaskContext

    from kafkawire.spark import KafkaWire

    # The class is inside a function so that Spark pickles the whole class, which its workers cannot import from the
    # tests.
    class Failing(KafkaWire):
        """A sink whose first task fails after it has written everything, and is then repeated."""

        @classmethod
        def name(cls) -> str:
            return "failing"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return failing(super().writer(schema, overwrite))

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return failing(super().streamWriter(schema, overwrite))

    def failing(writer: Any) -> Any:
        class FailingWriter(type(writer)):  # type: ignore[misc]  # the base is one of two classes
            def write(self, iterator: Any) -> Any:
                message = super().write(iterator)
                context = TaskContext.get()
                assert context is not None
                if context.attemptNumber() == 0 and context.partitionId() == 0:
                    raise RuntimeError("the task fails, as the test wants it")
                return message

        writer.__class__ = FailingWriter
        return writer

    for each in (KafkaWire, Failing):
        spark.dataSource.register(each)
    return spark


def save(rows: Any, broker: Broker, name: str = "kafkawire", **options: Any) -> None:
    """Write a query's rows to the topic `out`."""
    writer = rows.write.format(name).mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**{"topic": "out", **options}).save()


# Queries.


@pytest.mark.smoke
def test_columns(source: Any, broker: Broker) -> None:
    rows = source.sql("""
        select 'a' topic, 'k' key, cast('v' as binary) value, 1 partition, null headers, 7 other
        union all select 'b', null, null, null, array(named_struct('key', 'h', 'value', cast('x' as binary)))
        , 8""")
    rows = rows.selectExpr("topic", "key", "value", "partition", "headers", "other")
    writer = rows.write.format("kafkawire").mode("append")
    writer.option("kafka.bootstrap.servers", broker.bootstrap).save()
    (first,) = written(broker.bootstrap, "a")
    assert (first.key, first.value, first.partition, [*first.headers]) == (b"k", b"v", 1, [])
    (second,) = written(broker.bootstrap, "b")
    assert (second.key, second.value, [*second.headers]) == (None, None, [("h", b"x")])
    save(rows.drop("partition"), broker)
    assert len(written(broker.bootstrap, "out")) == 2  # the option takes precedence over the column


@pytest.mark.smoke
@pytest.mark.parametrize("prefix", [None, "writers"])
def test_many_rows(source: Any, broker: Broker, prefix: str | None) -> None:
    options = {} if prefix is None else {"transactionalIdPrefix": prefix}
    save(source.range(30_000, numPartitions=3).selectExpr("cast(id as string) value"), broker, **options)
    values = [int(each.value or b"") for each in written(broker.bootstrap, "out")]
    assert sorted(values) == list(range(30_000))


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("select 1 value", {}, "schema='value int': expected string or binary"),
        ("select 'v' value", {"dedupeHeader": "true"}, "no such option; did you mean dedupeHeaders"),
        (
            "select 'v' value",
            {"kafka.acks": "1", "transactionalIdPrefix": "w"},
            "transactionalIdPrefix='w': it needs kafka.acks",
        ),
    ],
)
def test_refused(source: Any, broker: Broker, query: str, options: dict[str, str], reason: str) -> None:
    with pytest.raises(AnalysisException, match=reason):
        save(source.sql(query), broker, **options)


def test_without_idempotence(source: Any, broker: Broker) -> None:
    """Users may choose options that rule out idempotence, as with Java's producer."""
    for name, value in (("acks", "1"), ("retries", "0"), ("max.in.flight.requests.per.connection", "10")):
        save(source.sql("select 'v' value"), broker, **{f"kafka.{name}": value})
    assert len(written(broker.bootstrap, "out")) == 3


def test_append_is_the_only_mode(source: Any, broker: Broker) -> None:
    writer = source.sql("select 'v' value").write.format("kafkawire").mode("overwrite")
    with pytest.raises(AnalysisException, match="records can only be appended to topics"):
        writer.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "out").save()


@pytest.mark.smoke
def test_a_row_that_is_not_stored(source: Any) -> None:
    with (
        Broker(ephemeral=True, num_partitions=1, message_max_bytes=1_000) as broker,
        pytest.raises(PythonException, match=r"MESSAGE_TOO_LARGE.*out-0"),
    ):
        save(source.sql("select repeat('v', 2000) value"), broker)


@pytest.mark.parametrize("name", ["kafkawire", "failing"])
@pytest.mark.parametrize("options", [{}, {"transactionalIdPrefix": "writers"}])
def test_a_task_that_is_repeated(source: Any, broker: Broker, name: str, options: dict[str, str]) -> None:
    """Rows that were written twice have the same ids, or are seen only once."""
    rows = source.range(100, numPartitions=2).selectExpr("cast(id as string) value")
    save(rows, broker, name, dedupeHeaders="true", **options)
    found = written(broker.bootstrap, "out")
    assert len(found) == (150 if name == "failing" and not options else 100)
    values = {row_id(each): each.value for each in found}
    assert sorted(map(int, values.values())) == list(range(100))
    assert len({each.partition("/")[0] for each in values}) == 1


# Streams.


def stream(spark: Any, folder: Path, broker: Broker, name: str = "kafkawire", **options: Any) -> Any:
    """Return a writer that writes files of numbers to the topic `out`, two files at a time."""
    rows = spark.readStream.format("json").schema("number bigint").option("maxFilesPerTrigger", 2).load(str(folder))
    writer = rows.selectExpr("cast(number as string) value").writeStream.format(name)
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "out").options(**options)
    return writer.option("checkpointLocation", f"{folder}.checkpoint").trigger(availableNow=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "numbers"
    folder.mkdir()
    for number in range(4):
        add_file(folder, number)
    return folder


def add_file(folder: Path, number: int) -> None:
    lines = (json.dumps({"number": each}) for each in range(number * 10, number * 10 + 10))
    (folder / f"{number}.json").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("name", "options", "repeated"),
    [
        ("kafkawire", {}, 0),
        ("failing", {}, 10),  # a task writes one of the two files
        ("kafkawire", {"transactionalIdPrefix": "writers"}, 0),
        ("failing", {"transactionalIdPrefix": "writers"}, 0),
    ],
)
def test_stream(source: Any, broker: Broker, folder: Path, name: str, options: dict[str, str], repeated: int) -> None:
    for rounds in (2, 3):
        query = stream(source, folder, broker, name, dedupeHeaders="true", **options).start()
        assert query.awaitTermination(200)
        found = written(broker.bootstrap, "out")
        values = {row_id(each): int(each.value or b"") for each in found}
        assert sorted(values.values()) == list(range(20 * rounds))
        assert len(found) == (20 + repeated) * rounds
        batches = Counter(each.split("/")[1] for each in values)
        assert batches == {str(number): 20 for number in range(rounds)}
        assert {each.split("/")[0] for each in values} == {query.id}
        add_file(folder, 4)
        add_file(folder, 5)
