"""Spark reads segments in batch queries and streams, through the data source and `read_segments`.

Method: let a small local Spark read segments written by hand and by the reference broker. Stop a stream between its
micro-batches while the log grows; in the end, each record must have been read once. The tests are skipped if Spark or
Java is missing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records import BatchBuilder, Compression
from kafkawire.sdk.spark.segments import frame
from kafkawire.sdk.spark.segments.frame import read_segments
from kafkawire.sync import Producer
from kafkawire.testing import Broker

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, records_of, write_segment

# The first session starts a JVM, and the first query starts the workers.
pytestmark = pytest.mark.timeout(300)

OFFSETS = range(100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a broker's folder that has two partitions with two segments each, and an internal topic."""
    for number, compression in enumerate([Compression.NONE, Compression.ZSTD]):
        for base in (0, 50):
            batches = [batch(base + each * 10, compression=compression) for each in range(5)]
            write_segment(tmp_path / f"orders-{number}", batches)
    write_segment(tmp_path / "__consumer_offsets-3", [batch(0)])
    return tmp_path


@pytest.fixture
def source(spark: Any) -> Any:
    from kafkawire.spark import KafkaSegments

    spark.dataSource.register(KafkaSegments)
    return spark


@pytest.mark.smoke
def test_batch(source: Any, folder: Path) -> None:
    records = source.read.format("kafka_segments").option("includeHeaders", True).load(str(folder))
    assert records.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    counted = records.groupBy("topic", "partition").count().orderBy("topic", "partition").collect()
    assert [tuple(row) for row in counted] == [("__consumer_offsets", 3, 10), ("orders", 0, 100), ("orders", 1, 100)]
    row = records.where("partition = 1 and offset = 55").first()
    assert (row.key, row.value, row.timestamp.timestamp()) == (b"key 55", b"value 55 " * 3, (TIME_MS + 55) / 1000)


def test_schema_and_options(source: Any, folder: Path) -> None:
    reader = source.read.format("kafka_segments").schema("offset bigint, value binary").option("subscribe", "orders")
    reader = reader.option("startingOffsets", '{"orders":{"0":98,"1":99}}')
    rows = sorted(tuple(row) for row in reader.load(str(folder)).collect())
    assert rows == [(offset, b"value %d " % offset * 3) for offset in (98, 99, 99)]


@pytest.mark.parametrize(
    ("option", "value", "schema", "reason"),
    [
        ("splitByte", "1", None, "no such option; did you mean splitBytes"),
        ("mode", "LENIENT", None, "expected PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ("topics", "ordres", None, "topics='ordres': available topics: __consumer_offsets, orders"),
        ("assign", '{"orders":[1,2]}', None, "assign='orders-2': available partitions: orders-0, orders-1"),
        ("mode", "FAILFAST", "offset int", "schema='offset int': the column is bigint"),
        ("startingOffsets", "latest", None, "a batch query would read nothing"),
    ],
)
def test_refused(source: Any, folder: Path, option: str, value: str, schema: str | None, reason: str) -> None:
    reader = source.read.format("kafka_segments").option(option, value)
    with pytest.raises(AnalysisException, match=reason):
        (reader if schema is None else reader.schema(schema)).load(str(folder)).collect()


def test_nothing_to_read(source: Any, folder: Path) -> None:
    assert source.read.format("kafka_segments").option("subscribePattern", "other").load(str(folder)).count() == 0


@pytest.mark.smoke
def test_pushdown(source: Any, folder: Path) -> None:
    source.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        reader = source.read.format("kafka_segments").option("pushdown", "true")
        records = reader.load(str(folder))
        wanted = records.where("topic = 'orders' and partition in (1, 7) and offset >= 42 and offset < 60")
        later = wanted.where(f"timestamp >= timestamp_millis({TIME_MS + 45})")
        plan = later._jdf.queryExecution().executedPlan().toString()
        assert "partition" not in plan.partition("Filter")[2].partition("\n")[0], plan  # Spark need not filter again
        assert sorted(row.offset for row in later.select("offset").collect()) == list(range(45, 60))
        # In Spark 4.3, a DataFrame that has been loaded keeps its filters, even for later queries without filters.
        assert reader.load(str(folder)).count() == 210
    finally:
        source.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.smoke
def test_map_batches(spark: Any, folder: Path) -> None:
    import pyarrow

    def sums(rows: Any) -> Any:
        offsets = rows.column("offset").to_pylist()
        return pyarrow.RecordBatch.from_pydict({"total": [sum(offsets)], "count": [len(offsets)]})

    summed = read_segments(
        spark, folder, map_batches=sums, columns=["offset"], schema="total bigint, count int", topics=["orders"]
    )
    assert [sum(column) for column in zip(*summed.collect(), strict=True)] == [2 * sum(OFFSETS), 200]

    def odd(rows: Any) -> Any:
        return rows.filter(pyarrow.array([offset % 2 == 1 for offset in rows.column("offset").to_pylist()]))

    assert read_segments(spark, folder, map_batches=odd, assign={"orders": [1]}).count() == 50
    assert read_segments(spark, folder, columns=["offset"]).columns == ["offset"]
    assert read_segments(spark, folder, topics=None, assign=None).count() == 210
    assert read_segments(spark, folder, topics={"orders": 1}.keys()).count() == 200
    with pytest.raises(ConfigurationError, match="columns='offset': schema is also given"):
        read_segments(spark, folder, columns=["offset"], schema="offset bigint")
    with pytest.raises(ConfigurationError, match="columns='position'"):
        read_segments(spark, folder, columns=["position"])
    refused: list[tuple[dict[str, Any], str]] = [
        ({"pushdown": True}, "pushdown='true': map_batches is given"),
        ({"columns": []}, "columns='': expected one or more of key, value, "),
        ({"schema": "offset bigint not null"}, "schema='offset bigint NOT NULL': no column may be declared NOT NULL"),
        ({"schema": "a int, a int"}, "schema='a, a': the column a is repeated"),
    ]
    for options, reason in refused:
        with pytest.raises(ConfigurationError, match=reason):
            read_segments(spark, folder, map_batches=odd, **options)


def test_paths(spark: Any, folder: Path) -> None:
    write_segment(folder / "a,1 " / "orders-0", [batch(0)])
    write_segment(folder / "b" / "orders-1", [batch(0)])
    assert read_segments(spark, folder / "a,1 ").count() == 10
    assert read_segments(spark, [str(folder / "a,1 "), folder / "b"]).count() == 20
    assert read_segments(spark, f"{folder}/b, {folder}/orders-0").count() == 110


def test_file_system_of_spark(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If pyarrow cannot open a file system, Spark reads the files; the rows are the same."""
    options: dict[str, Any] = {
        "startingOffsets": {"orders": {"0": 95}},
        "endingOffsets": {"orders": {"0": -1, "1": 3}},
        "endingTimestamp": TIME_MS + 99,
        "topics": "orders",
    }
    direct = read_segments(spark, folder, **options)
    expected = sorted(map(tuple, direct.collect()))
    monkeypatch.setattr(frame, "_opens", lambda paths: False)
    through = read_segments(spark, folder, **options)
    assert through.schema == direct.schema
    assert sorted(map(tuple, through.collect())) == expected
    assert len(expected) == 4 + 3

    def count(rows: Any) -> Any:
        import pyarrow

        return pyarrow.RecordBatch.from_pydict({"count": [rows.num_rows]})

    counted = read_segments(spark, folder, map_batches=count, schema="count bigint", **options)
    assert sum(row[0] for row in counted.collect()) == 7
    for refused in ({"isolationLevel": "read_committed"}, {"is_stream": True}):
        with pytest.raises(ConfigurationError, match="Spark reads the files of"):
            read_segments(spark, folder, **refused)  # type: ignore[arg-type]  # each is a keyword argument


@pytest.mark.parametrize(
    ("options", "count"),
    [
        # The start of the time range is inclusive, and its end is exclusive.
        ({"startingTimestamp": TIME_MS + 50, "endingTimestamp": TIME_MS + 60}, 2 * 10 + 10),
        ({"subscribePattern": "orders|old"}, 200),
        ({"subscribePattern": "orders"}, 200),
        ({"assign": {"orders": [1]}}, 100),
        ({"subscribe": "orders", "includeHeaders": True, "extra": ["compression", "batchOffset"]}, 200),
        ({"subscribe": "older-orders", "decompressedBytesMax": 10_000}, 10),
    ],
)
def test_options_with_the_file_system_of_spark(
    spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], count: int
) -> None:
    write_segment(folder / "older-orders-0", [batch(50)])
    direct = read_segments(spark, folder, **options)
    expected = sorted(map(repr, direct.collect()))
    assert len(expected) == count
    monkeypatch.setattr(frame, "_opens", lambda paths: False)
    through = read_segments(spark, folder, **options)
    assert through.schema == direct.schema
    assert sorted(map(repr, through.collect())) == expected


def test_patterns_with_the_file_system_of_spark(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves of the alternation match whole paths, whatever segment names end with."""
    for number in (0, 1):
        for path in (folder / f"orders-{number}").glob("*.log"):
            path.rename(path.with_suffix(".segment"))
    pattern = r"(?P<topic>orders)-(?P<partition>\d+)/(?:x|(?P<offset>\d+)\.segment)|orders-7/1.index"
    direct = read_segments(spark, folder, pathPattern=pattern)
    expected = sorted(map(repr, direct.collect()))
    assert len(expected) == 200
    monkeypatch.setattr(frame, "_opens", lambda paths: False)
    assert sorted(map(repr, read_segments(spark, folder, pathPattern=pattern).collect())) == expected


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("topics", ["orders", "ordres"], "topics='ordres': available topics: orders"),
        ("assign", {"orders": [1, 2]}, "assign='orders-2': available partitions: orders-0, orders-1"),
    ],
)
def test_what_is_not_there_with_the_file_system_of_spark(
    spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: Any, reason: str
) -> None:
    monkeypatch.setattr(frame, "_opens", lambda paths: False)
    with pytest.raises(ConfigurationError, match=reason):
        read_segments(spark, folder, **{option: value})


def test_damage_with_the_file_system_of_spark(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage has no offset, so it is reported for any start; a mode that has no row for damage drops it."""
    path = folder / "orders-0" / f"{50:020}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    monkeypatch.setattr(frame, "_opens", lambda paths: False)
    bounds = {"subscribe": "orders", "startingOffsets": {"orders": {"0": 85, "1": 97}}, "startingTimestamp": TIME_MS}
    rows = read_segments(spark, folder, mode="PERMISSIVE", **bounds).collect()
    assert sorted((row.partition, row.offset) for row in rows if row._corrupt is None) == [
        *((0, offset) for offset in range(85, 90)),
        *((1, offset) for offset in range(97, 100)),
    ]
    assert [(row.topic, row.partition, row._corrupt.position) for row in rows if row._corrupt is not None] == [
        ("orders", 0, 4 * len(batch(50)))
    ]
    assert read_segments(spark, folder, mode="DROPMALFORMED", **bounds).count() == 8
    with pytest.raises(PythonException, match="batch of offset 90 at byte"):
        read_segments(spark, folder, **bounds).collect()
    with pytest.raises(PythonException, match=r"orders-1.*100"):
        read_segments(spark, folder, assign={"orders": [1]}, decompressedBytesMax=100).collect()
    with pytest.raises(ConfigurationError, match="startingOffsets='latest': a batch query"):
        read_segments(spark, folder, startingOffsets="latest")


def test_times_that_spark_cannot_hold(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such times count as later than any time that Spark can hold, however the files are read."""
    builder = BatchBuilder()
    for time_ms in (1000, 2**62, 2000):
        builder.append(time_ms, None, b"v")
    write_segment(tmp_path / "t-0", [builder.build()])
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"startingTimestamp": 1500}, [1, 2]),
        ({"endingTimestamp": 1500}, [0]),
    ]
    for bounds, expected in cases:
        monkeypatch.undo()
        for _ in range(2):
            rows = read_segments(spark, tmp_path, mode="PERMISSIVE", **bounds).collect()
            assert sorted(row.offset for row in rows if row._corrupt is None) == expected
            assert sum(row._corrupt is not None for row in rows) == 1
            monkeypatch.setattr(frame, "_opens", lambda paths: False)


@pytest.mark.smoke
def test_damage(spark: Any, folder: Path) -> None:
    path = folder / "orders-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(PythonException, match=rf"DecodeError: {path} \(orders-0\), batch of offset 40 at byte"):
        read_segments(spark, folder).collect()
    rows = read_segments(spark, folder, topics="orders", mode="PERMISSIVE").where("_corrupt is not null").collect()
    assert [(row.topic, row.partition, row.offset, row._corrupt.path) for row in rows] == [
        ("orders", 0, None, str(path))
    ]
    assert read_segments(spark, folder, topics="orders", mode="DROPMALFORMED").count() == 190


def test_real_broker(spark: Any, tmp_path: Path) -> None:
    """The reference broker writes small segments while it runs."""
    expected = [b"%d" % number * 300 for number in range(3000)]
    with Broker(tmp_path / "data", num_partitions=2, log_segment_bytes=1024 * 1024) as broker:
        with Producer(broker.bootstrap) as producer:
            for number, value in enumerate(expected):
                producer.send("orders", value=value, key=b"%d" % number)
            producer.flush()
        assert len([*broker.data_dir.glob("orders-*/*.log")]) > 2
        values = read_segments(spark, broker.data_dir, topics="orders", schema="value binary").collect()
    assert sorted(row.value for row in values) == sorted(expected)


# Streams.


def copied(spark: Any, folder: Path, out: Path, **options: Any) -> Any:
    """Return a writer that copies a folder's new records to Parquet, starting where an earlier copy stopped."""
    stream = read_segments(
        spark, folder, is_stream=True, schema="topic string, partition int, offset bigint", **options
    )
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{out}.checkpoint")
    return writer.option("path", str(out))


def finish(writer: Any) -> Any:
    """Run a query over everything that is now available.

    Spark gives the worker that plans a stream ten seconds to start, which may not be enough on a busy machine. A
    restarted query continues from its checkpoint.
    """
    for is_last in (False, False, True):
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(200)
        except StreamingQueryException as error:
            if is_last or "Python worker failed to connect back" not in str(error):
                raise
        else:
            break
    return query


def rows_of(spark: Any, out: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.parquet(str(out)).collect())


def test_stream_that_is_stopped(spark: Any, tmp_path: Path) -> None:
    folder, out = tmp_path / "data", tmp_path / "out"
    write_segment(folder / "orders-0", [batch(number * 10) for number in range(10)])
    write_segment(folder / "orders-1", [batch(number * 10) for number in range(3)])
    # The stream is stopped after a micro-batch, at any point in the next one.
    query = copied(spark, folder, out, maxOffsetsPerTrigger=17).start()
    with suppress(StreamingQueryException):  # see `finish`
        while not any(each.numInputRows for each in query.recentProgress):
            query.awaitTermination(0.1)
    query.stop()
    # The log grows: a segment rolls, an index is rewritten, and a partition appears.
    write_segment(folder / "orders-0", [batch(number * 10) for number in range(10, 13)])
    write_segment(folder / "orders-1", [batch(number * 10) for number in range(7)])
    write_segment(folder / "orders-2", [batch(number * 10) for number in range(2)])
    query = finish(copied(spark, folder, out, maxBytesPerTrigger=3000))
    assert sum(bool(each.numInputRows) for each in query.recentProgress) > 2
    expected = [("orders", number, offset) for number, end in enumerate([130, 70, 20]) for offset in range(end)]
    assert rows_of(spark, out) == expected
    # There is a run without new records, then one with new records.
    for end in (130, 140):
        if end == 140:
            write_segment(folder / "orders-0", [batch(number * 10) for number in range(10, 14)])
        finish(copied(spark, folder, out))
        assert rows_of(spark, out) == sorted({*expected, *(("orders", 0, offset) for offset in range(end))})


@pytest.mark.smoke
def test_stream_of_transactions(spark: Any, tmp_path: Path) -> None:
    """The stream advances as long as all transactions have ended."""
    folder, out = tmp_path / "data", tmp_path / "out"
    log = [batch(0, 2), records_of(2, 7), records_of(3, 8), batch(4, 1)]
    seen = []
    for more in ([], [marker(5, 7, False)], [marker(6, 8, True), batch(7, 1)]):
        log += more
        write_segment(folder / "orders-0", log)
        finish(copied(spark, folder, out, isolationLevel="read_committed"))
        seen.append([offset for _, _, offset in rows_of(spark, out)])
    assert seen == [[0, 1], [0, 1], [0, 1, 3, 4, 7]]


def test_stream_that_lost_records(spark: Any, tmp_path: Path) -> None:
    folder, out = tmp_path / "data", tmp_path / "out"
    first = write_segment(folder / "orders-0", [batch(0), batch(10)])
    finish(copied(spark, folder, out))
    first.unlink()
    write_segment(folder / "orders-0", [batch(50)])
    with pytest.raises(
        StreamingQueryException, match="orders-0: offsets 20 to 49 are gone; the partition begins at 50"
    ):
        finish(copied(spark, folder, out))
    finish(copied(spark, folder, out, failOnDataLoss=False))
    assert [offset for _, _, offset in rows_of(spark, out)] == [*range(20), *range(50, 60)]
