"""`decode_batches` gives in Spark what its pure part gives without it: a DataFrame that fits the connector's queries.

Method: a small local Spark decodes columns and segment files that `BatchBuilder` wrote; skipped where Spark or the Java
that it runs on is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records import BatchBuilder, Compression
from kafkawire.sdk.spark.decode import decode_batches

# The first session starts a JVM, and the first query the workers.
pytestmark = [
    pytest.mark.timeout(300),
    # What pyspark itself does with the newest pandas and Python is not the matter of these tests.
    pytest.mark.filterwarnings("ignore"),
]

TIME_MS = 1_700_000_000_000
RECORDS_OF_A_BATCH = 1000


def batch(base_offset: int, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(1 << 20, compression, base_offset=base_offset)
    for offset in range(base_offset, base_offset + RECORDS_OF_A_BATCH):
        builder.append(TIME_MS + offset, b"key %d" % offset, b"value %d" % offset, [("n", b"%d" % offset)])
    return builder.build()


def test_columns_are_the_connectors(spark: Any) -> None:
    raw = spark.createDataFrame([(batch(0), "orders", 3)], "raw binary, t string, p int")
    plain = decode_batches(raw, "raw", topic="t", partition="p")
    assert plain.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = decode_batches(raw, raw["raw"], headers=True)
    assert with_headers.columns == [*plain.columns, "headers"]
    assert with_headers.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


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


def test_segment_files(spark: Any, tmp_path: Path) -> None:
    """Segments are read from a broker's folder; skipping leaves out a half-written batch at the end of the last one."""
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
    records = decode_batches(segments, "content", topic=topic, partition=partition, errors="skip")
    counted = records.groupBy("topic", "partition").agg({"offset": "max", "*": "count"}).orderBy("partition").collect()
    count = 6 * RECORDS_OF_A_BATCH
    assert [tuple(row) for row in counted] == [("orders", 0, count - 1, count), ("orders", 1, count - 1, count)]


def test_topic_and_partition(spark: Any) -> None:
    """They come from columns, from expressions or, the partition, from a number; otherwise they are null."""
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


def test_damage_is_an_error_that_names_the_place(spark: Any) -> None:
    from pyspark.errors import PythonException

    damaged = batch(0) + batch(1000)[:-1] + b"\xff" + batch(2000)
    raw = spark.createDataFrame([(damaged,)], "raw binary").coalesce(1)
    with pytest.raises(PythonException, match=rf"DecodeError: row 0, crc at byte {len(batch(0))}: checksum"):
        decode_batches(raw, "raw").count()
    assert decode_batches(raw, "raw", errors="skip").count() == 2 * RECORDS_OF_A_BATCH


def test_unknown_policy_is_refused(spark: Any) -> None:
    raw = spark.createDataFrame([(b"",)], "raw binary")
    with pytest.raises(ConfigurationError, match="errors='null'"):
        decode_batches(raw, "raw", errors="null")  # type: ignore[arg-type]  # what the test is about
