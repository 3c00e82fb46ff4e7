"""Called as Spark calls it, but without Spark, the data source plans and reads; readers and tasks can be pickled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError, DecodeError, LocalProtocolError
from tests.needs import PUSHDOWN

pyarrow = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.schema import CONNECTOR  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.segments.source import KafkaSegments  # noqa: E402 - it needs pyspark
from kafkawire.sdk.spark.segments.stream import SegmentStreamReader  # noqa: E402 - it needs pyspark
from tests.sdk.spark.segments.logs import batch, write_segment  # noqa: E402 - it needs pyarrow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for partition in (0, 1):
        write_segment(tmp_path / f"orders-{partition}", [batch(0), batch(10)])
    return tmp_path


def schema(ddl: str) -> Any:
    kinds = {"int": types.IntegerType(), "bigint": types.LongType(), "binary": types.BinaryType()}
    found = types.StructType()
    for column in ddl.split(", "):
        name, kind = column.split(" ")
        found = found.add(name, kinds[kind])
    return found


def source(folder: Path, **options: str) -> KafkaSegments:
    return KafkaSegments({"path": str(folder), **options})


def batches(reader: Any, task: Any) -> list[Any]:
    """Read a task's part, and return the Arrow batches."""
    return list(reader.read(task))


def read(reader: Any) -> list[Any]:
    """Do Spark's work: plan, pickle, and read each task."""
    worker = pickle.loads(pickle.dumps(reader))
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    return [row for task in tasks for rows in worker.read(task) for row in rows.to_pylist()]


def test_schema(folder: Path) -> None:
    assert KafkaSegments.name() == "kafka_segments"
    assert source(folder, includeHeaders="true", extra="path", mode="PERMISSIVE").schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp_ltz, "
        "`timestampType` int, `headers` array<struct<`key`: string, `value`: binary>>, `path` string, "
        "`_corrupt` struct<`path`: string, `position`: bigint, `size`: bigint, `reason`: string>"
    )
    with pytest.raises(ConfigurationError, match="did you mean mode"):
        source(folder, mod="x").schema()


def test_rows(folder: Path) -> None:
    rows = read(source(folder).reader(schema("offset bigint, partition int")))
    assert rows == [{"offset": offset, "partition": partition} for partition in (0, 1) for offset in range(20)]
    rows = read(
        source(folder, assign='{"orders":[1]}', endingOffsets='{"orders":{"1":1}}').reader(schema("value binary"))
    )
    assert rows == [{"value": b"value 0 " * 3}]
    assert list(source(folder).reader(schema("value binary")).read(_nothing())) == []


def _nothing() -> Any:
    from pyspark.sql.datasource import InputPartition

    return InputPartition(None)


def test_nothing_to_read(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Zero rows would suggest that there are no records, but they may be compressed, or in a different folder."""
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    (tmp_path / "other" / "orders-0" / f"{0:020}.log.xz").touch()
    reader = source(tmp_path / "other").reader(schema("offset bigint"))
    with pytest.raises(ConfigurationError, match=r"/other': no segments were found: expected .*: 0{20}\.log\.xz$"):
        reader.partitions()
    (folder / "orders-0" / "backup.zip").touch()
    assert len(read(source(folder).reader(schema("offset bigint")))) == 40
    assert "not read, although they may contain segments: 00000000000000000000.log.xz, backup.zip" in caplog.text


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("offset int", "schema='offset int': the column is bigint"),
        ("offsets bigint", "schema='offsets bigint': no such column; did you mean offset?"),
        ("xyz bigint", "schema='xyz bigint': no such column; available columns: key, value, "),
        ("value binary, value binary", "schema='value binary': the column is repeated"),
    ],
)
def test_refused_schema(folder: Path, ddl: str, reason: str) -> None:
    given = source(folder)
    for call in (lambda: given.reader(schema(ddl)), lambda: given.streamReader(schema(ddl)).initialOffset()):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert str(caught.value).startswith(reason)


def test_column_that_must_not_be_null(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="schema='offset bigint NOT NULL': no column may be declared NOT NULL"):
        source(folder).reader(types.StructType().add("offset", "long", nullable=False))


def test_filters(folder: Path) -> None:
    """Only a reader with the option accepts filters; Spark refuses others unless it is configured for filters."""
    from pyspark.sql.datasource import DataSourceReader

    PUSHDOWN.require()
    from pyspark.sql.datasource import EqualTo, GreaterThan

    columns = schema("offset bigint, partition int")
    plain = source(folder).reader(columns)
    assert getattr(plain.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    reader = source(folder, pushdown="true").reader(columns)
    assert len(read(reader)) == 40
    filters = [EqualTo(("partition",), 1), GreaterThan(("offset",), 15)]
    assert list(reader.pushFilters(filters)) == filters[1:]
    assert [row["offset"] for row in read(reader)] == list(range(15, 20))


def test_loss(folder: Path) -> None:
    """Loss is an error in the same modes as damage, unless an option says otherwise."""
    cases = [({}, True), ({"mode": "DROPMALFORMED"}, False), ({"failOnDataLoss": "false"}, False)]
    cases.append(({"mode": "PERMISSIVE", "failOnDataLoss": "true"}, True))
    for options, fails in cases:
        log = write_segment(folder / "orders-0", [batch(0)])
        reader = source(folder, **options).reader(schema("offset bigint"))
        tasks = reader.partitions()
        log.unlink()
        if fails:
            with pytest.raises(DecodeError, match="has since been removed"):
                batches(reader, tasks[0])
        else:
            assert sum(rows.num_rows for rows in batches(reader, tasks[0])) == 20


@pytest.mark.parametrize(
    ("option", "offsets", "loss"),
    [
        ("startingOffsets", '{"later":{"0":95}}', "later-0: offsets 95 to 99 are gone; the partition begins at 100"),
        ("startingOffsets", '{"later":{"0":111}}', "later-0 ends at offset 110, but offsets up to 110 are requested"),
        ("endingOffsets", '{"later":{"0":111}}', "later-0 ends at offset 110, but offsets up to 110 are requested"),
        ("startingOffsets", '{"later":{"7":0}}', "later-7 does not exist, but its offsets are requested"),
        ("endingOffsets", '{"other":{"0":5}}', "other-0 does not exist, but its offsets are requested"),
        ("startingOffsets", '{"later":{"0":110}}', None),
        ("startingOffsets", '{"later":{"0":-2}}', None),
        ("endingOffsets", '{"later":{"0":110}}', None),
        ("endingOffsets", '{"later":{"0":-1}}', None),
        ("endingOffsets", '{"later":{"0":0}}', None),
    ],
)
def test_offsets_that_are_gone(
    folder: Path, caplog: pytest.LogCaptureFixture, option: str, offsets: str, loss: str | None
) -> None:
    """An offset given as a number must exist; a query from the earliest or to the latest offset gets what exists."""
    write_segment(folder / "later-0", [batch(100)])
    options = {option: offsets}
    if loss is None:
        source(folder, **options).reader(schema("offset bigint")).partitions()
        return
    with pytest.raises(LocalProtocolError, match=f"^{loss}; with failOnDataLoss=false the query continues"):
        source(folder, **options).reader(schema("offset bigint")).partitions()
    tolerant = source(folder, failOnDataLoss="false", **options).reader(schema("offset bigint"))
    assert len(read(tolerant)) in {40, 50}
    assert f"lost: {loss}" in caplog.text


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_of_what_is_not_selected(folder: Path, option: str) -> None:
    """Offsets for unselected topics are refused: a topic with a mistyped name would be read from its beginning."""
    options = {option: '{"orders":{"0":5},"ordres":{"1":5}}', "topics": "orders", "failOnDataLoss": "false"}
    with pytest.raises(ConfigurationError, match=f"^{option}='ordres-1': expected only partitions that topics selects"):
        source(folder, **options).reader(schema("offset bigint"))


def test_offsets_that_end_before_they_begin(folder: Path) -> None:
    options = {"startingOffsets": '{"orders":{"1":5}}', "endingOffsets": '{"orders":{"1":4}}'}
    reason = "startingOffsets=5: orders-1 would begin at offset 5, but end earlier, at 4, because of endingOffsets=4"
    with pytest.raises(ConfigurationError, match=f"^{reason}"):
        source(folder, failOnDataLoss="false", **options).reader(schema("offset bigint"))
    options["startingOffsets"] = '{"orders":{"1":4}}'
    assert len(read(source(folder, assign='{"orders":[1]}', **options).reader(schema("offset bigint")))) == 0


def test_function(folder: Path) -> None:
    class Mapped(KafkaSegments):
        map_batches = staticmethod(lambda rows: pyarrow.RecordBatch.from_pydict({"columns": [rows.schema.names]}))

    mapping = Mapped({"path": str(folder)})
    names = types.StructType().add("columns", types.ArrayType(types.StringType()))
    reader = mapping.reader(names)
    (rows,) = batches(reader, reader.partitions()[0])
    assert rows.to_pylist() == [{"columns": list(CONNECTOR)}]
    stream = mapping.streamReader(names)
    assert isinstance(stream, SegmentStreamReader)
    (rows,) = stream.read(stream.partitions({}, {"orders-0": 20})[0])
    assert rows.to_pylist() == [{"columns": list(CONNECTOR)}]


def test_no_filters_before_a_function(folder: Path) -> None:
    """Spark's filters apply to the columns that the function returns."""

    class Mapped(KafkaSegments):
        map_batches = staticmethod(lambda rows: rows)

    with pytest.raises(
        ConfigurationError, match="pushdown='true': map_batches is given, and Spark would apply conditions"
    ):
        Mapped({"path": str(folder), "pushdown": "true"}).reader(schema("offset bigint"))


def test_what_is_not_there(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="topics='ordres': available topics: orders"):
        source(folder, topics="ordres").reader(schema("offset bigint")).partitions()
    stream = source(folder, topics="ordres").streamReader(schema("offset bigint"))
    assert stream.initialOffset() == {}  # it may be created later


@pytest.mark.parametrize("names", [("offset",), ()])
def test_columns_of_a_function(folder: Path, names: tuple[str, ...]) -> None:
    class Mapped(KafkaSegments):
        map_batches = staticmethod(lambda rows: pyarrow.RecordBatch.from_pydict({"columns": [rows.schema.names]}))
        map_columns = names

    reader = Mapped({"path": str(folder)}).reader(
        types.StructType().add("columns", types.ArrayType(types.StringType()))
    )
    (rows,) = batches(reader, reader.partitions()[0])
    assert rows.to_pylist() == [{"columns": list(names)}]


def test_tasks_of_a_size(folder: Path) -> None:
    assert len(source(folder).reader(schema("offset bigint")).partitions()) == 1
    assert len(source(folder, splitBytes="1m").reader(schema("offset bigint")).partitions()) == 2
