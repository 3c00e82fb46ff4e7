"""In Spark, `decode_batches` returns the same rows as its pure part without Spark, and fits the connector's queries.

Method: let a small local Spark decode columns and segment files that `BatchBuilder` wrote. The tests are skipped if
Spark or its Java is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records import BatchBuilder, Compression
from kafkawire.sdk.spark.columns.decode import decode_batches
from kafkawire.sdk.spark.schema import EXTRAS

# The first session starts a JVM, and the first query starts the workers.
pytestmark = pytest.mark.timeout(300)

TIME_MS = 1_700_000_000_000
RECORDS_OF_A_BATCH = 1000


def batch(base_offset: int, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(1 << 20, compression, base_offset=base_offset)
    for offset in range(base_offset, base_offset + RECORDS_OF_A_BATCH):
        builder.append(TIME_MS + offset, b"key %d" % offset, b"value %d" % offset, [("n", b"%d" % offset)])
    return builder.build()


def transactions() -> Any:
    """Return the schema for raw bytes and the aborted transactions in them."""
    from pyspark.sql.types import ArrayType, BinaryType, LongType, StructType

    aborted = StructType().add("producerId", LongType()).add("firstOffset", LongType())
    return StructType().add("raw", BinaryType()).add("aborted", ArrayType(aborted))


def test_columns_are_the_connectors(spark: Any) -> None:
    raw = spark.createDataFrame([(batch(0), "orders", 3)], "raw binary, t string, p int")
    plain = decode_batches(raw, "raw", topic="t", partition="p")
    assert plain.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = decode_batches(raw, raw["raw"], headers=True)
    assert with_headers.columns == [*plain.columns, "headers"]
    assert with_headers.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


@pytest.mark.smoke
def test_rows(spark: Any) -> None:
    raw = spark.createDataFrame([(batch(0), "orders", 3), (None, "orders", 4)], "raw binary, t string, p int")
    first, *_, last = decode_batches(raw, "raw", topic="t", partition="p", headers=True).orderBy("offset").collect()
    assert first.asDict(recursive=True) == {
        "key": b"key 0",
        "value": b"value 0",
        "topic": "orders",
        "partition": 3,
        "offset": 0,
        "timestamp": first.timestamp,
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"0"}],
    }
    assert first.timestamp.timestamp() * 1000 == TIME_MS
    assert last.offset == RECORDS_OF_A_BATCH - 1


def test_time_has_a_zone_whatever_the_session_says(spark: Any, setting: Any) -> None:
    """With this setting, a plain `timestamp` would have no time zone, and would denote another moment."""
    setting("spark.sql.timestampType", "TIMESTAMP_NTZ")
    records = decode_batches(spark.createDataFrame([(batch(0),)], "raw binary"), "raw")
    assert records.schema["timestamp"].dataType.simpleString() == "timestamp"
    ((first,),) = records.agg({"timestamp": "min"}).collect()
    assert first.timestamp() * 1000 == TIME_MS


def test_reserved_words_are_names(spark: Any, setting: Any) -> None:
    """With this setting, `offset`, `value` and other words must be quoted to be names."""
    setting("spark.sql.ansi.enforceReservedKeywords", "true")
    raw = spark.createDataFrame([(batch(0), [])], transactions())
    records = decode_batches(raw, "raw", headers=True, extra=EXTRAS, mode="PERMISSIVE")
    listed = decode_batches(raw, "raw", isolation_level="read_committed", aborted="aborted")
    assert records.count() == listed.count() == RECORDS_OF_A_BATCH


def test_segment_files(spark: Any, tmp_path: Path) -> None:
    """Segments are read from a broker's folder; a half-written batch at the end may be skipped."""
    from pyspark.sql.functions import regexp_extract

    for partition, compression in enumerate([Compression.NONE, Compression.ZSTD]):
        folder = tmp_path / f"orders-{partition}"
        folder.mkdir()
        batches = [batch(number * RECORDS_OF_A_BATCH, compression) for number in range(6)]
        (folder / f"{0:020}.log").write_bytes(b"".join(batches[:3]))
        (folder / f"{3 * RECORDS_OF_A_BATCH:020}.log").write_bytes(b"".join(batches[3:]) + batches[0][:100])
    segments = spark.read.format("binaryFile").load(f"{tmp_path}/*/*.log")
    name = r"([^/]+)-(\d+)/\d+\.log$"
    topic, partition = regexp_extract("path", name, 1), regexp_extract("path", name, 2)
    records = decode_batches(segments, "content", topic=topic, partition=partition, mode="DROPMALFORMED")
    counted = records.groupBy("topic", "partition").agg({"offset": "max", "*": "count"}).orderBy("partition").collect()
    count = 6 * RECORDS_OF_A_BATCH
    assert [tuple(row) for row in counted] == [("orders", 0, count - 1, count), ("orders", 1, count - 1, count)]


def test_topic_and_partition(spark: Any) -> None:
    """Topic and partition come from columns, expressions or (for the partition) a number; otherwise, both are null."""
    from pyspark.sql.functions import lit

    raw = spark.createDataFrame([(batch(0), "orders")], "raw binary, t string").cache()
    cases = [
        (None, None, (None, None)),
        ("t", 7, ("orders", 7)),
        (lit("literal"), lit("9"), ("literal", 9)),
    ]
    for topic, partition, expected in cases:
        records = decode_batches(raw, "raw", topic=topic, partition=partition)
        (row,) = records.select("topic", "partition").limit(1).collect()
        assert tuple(row) == expected


@pytest.mark.smoke
def test_damage_in_every_mode(spark: Any) -> None:
    from pyspark.errors import PythonException

    first, last = batch(0), batch(2000)
    damaged = first + batch(1000)[:-1] + b"\xff" + last
    raw = spark.createDataFrame([(damaged, "orders")], "raw binary, t string").coalesce(1)
    place = rf"DecodeError: row 0 \(orders-None\), batch of offset 1000 at byte {len(first)}: crc: the checksum"
    with pytest.raises(PythonException, match=place):
        decode_batches(raw, "raw", topic="t").count()
    dropped = decode_batches(raw, "raw", mode="dropmalformed")
    assert dropped.count() == 2 * RECORDS_OF_A_BATCH
    rows = decode_batches(raw, "raw", topic="t", mode="permissive")
    assert rows.columns == [*dropped.columns, "_corrupt"]
    (row,) = rows.where("_corrupt is not null").collect()
    assert (row.topic, row.offset, row._corrupt.path) == ("orders", None, None)
    assert (row._corrupt.position, row._corrupt.size) == (len(first), len(batch(1000)))
    assert rows.where("_corrupt is null").count() == 2 * RECORDS_OF_A_BATCH


def test_more_columns(spark: Any) -> None:
    data = batch(0, Compression.LZ4)
    raw = spark.createDataFrame([(data,)], "raw binary")
    records = decode_batches(raw, "raw", extra=["sequence", "compression", "batchPosition"])
    assert records.schema.simpleString().endswith(",sequence:int,compression:string,batchPosition:bigint>")
    assert {tuple(row) for row in records.select("sequence", "compression", "batchPosition").collect()} == {
        (-1, "lz4", 0)
    }


@pytest.mark.smoke
def test_aborted_transactions(spark: Any) -> None:
    """A fetch response lists aborted transactions; none of their records is returned."""
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(TIME_MS, None, b"aborted")
    aborted = [{"producerId": 7, "firstOffset": 0}]
    raw = spark.createDataFrame([(builder.build() + batch(1), aborted), (builder.build(), [])], transactions())
    records = decode_batches(raw, "raw", isolation_level="read_committed", aborted="aborted")
    assert records.where("value = 'aborted'").count() == 1
    assert records.count() == RECORDS_OF_A_BATCH + 1


@pytest.mark.parametrize(
    ("aborted", "count"),
    [
        ("array(named_struct('firstOffset', 0, 'producerId', 7))", 0),
        ("array(named_struct('FIRSTOFFSET', 0, 'other', 1, 'producerid', 7L))", 0),
        ("array(null, named_struct('producerId', 7L, 'firstOffset', 0L))", 0),
        ("array(named_struct('firstOffset', 7L, 'producerId', 0L))", 1),
        ("array()", 1),
        ("null", 1),
    ],
)
def test_fields_of_aborted_transactions(spark: Any, aborted: str, count: int) -> None:
    """The fields are found by name, so an id is never taken for an offset."""
    from pyspark.sql.functions import expr

    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(TIME_MS, None, b"aborted")
    raw = spark.createDataFrame([(builder.build(),)], "raw binary")
    records = decode_batches(raw, "raw", isolation_level="read_committed", aborted=expr(aborted))
    assert records.count() == count


@pytest.mark.parametrize(
    ("aborted", "kind"),
    [
        ("7", "int"),
        ("array(7)", "array<int>"),
        ("named_struct('producerId', 7L, 'firstOffset', 0L)", "struct<producerId:bigint,firstOffset:bigint>"),
        ("array(named_struct('producerId', 7L, 'offset', 0L))", "array<struct<producerId:bigint,offset:bigint>>"),
    ],
)
def test_what_is_no_list_of_aborted_transactions(spark: Any, aborted: str, kind: str) -> None:
    from pyspark.sql.functions import expr

    with pytest.raises(ConfigurationError) as caught:
        decode_batches(spark.createDataFrame([(b"",)], "raw binary"), "raw", aborted=expr(aborted))
    assert str(caught.value) == f"aborted='{kind}': expected array<struct<producerId: bigint, firstOffset: bigint>>"


def test_limit_of_a_batch(spark: Any) -> None:
    """A batch whose records exceed the limit is damage in every mode."""
    from pyspark.errors import PythonException

    small = BatchBuilder(compression=Compression.ZSTD, base_offset=RECORDS_OF_A_BATCH)
    small.append(TIME_MS, None, b"small")
    raw = spark.createDataFrame([(batch(0, Compression.ZSTD) + small.build(),)], "raw binary")
    with pytest.raises(PythonException, match="row 0, batch of offset 0 at byte 0: records: zstd: more than the 1000"):
        decode_batches(raw, "raw", decompressed_bytes_max=1000).count()
    assert [
        row.value for row in decode_batches(raw, "raw", mode="DROPMALFORMED", decompressed_bytes_max=1000).collect()
    ] == [b"small"]
    rows = decode_batches(raw, "raw", mode="PERMISSIVE", decompressed_bytes_max=1000).collect()
    assert sorted(row.offset or row._corrupt.position for row in rows) == [0, RECORDS_OF_A_BATCH]


@pytest.mark.parametrize(
    "options",
    [{"mode": "null"}, {"isolation_level": "committed"}, {"extra": ["headers"]}],
    ids=lambda each: next(iter(each)),
)
def test_what_is_refused(spark: Any, options: dict[str, Any]) -> None:
    raw = spark.createDataFrame([(b"",)], "raw binary")
    ((name, value),) = options.items()
    with pytest.raises(ConfigurationError, match=f"{name}='{value if isinstance(value, str) else value[0]}'"):
        decode_batches(raw, "raw", **options)
