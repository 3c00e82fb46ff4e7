"""In Spark, the functions for `select` and SQL give the same results as their pure parts without Spark.

Method: use a small local Spark. The tests are skipped if Spark or its Java is missing.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.records import BatchBuilder, Compression
from kafkawire.sdk.spark.columns import functions

pytestmark = pytest.mark.timeout(300)

TIME_MS = 1_700_000_000_000


def batch(base_offset: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(compression=compression, base_offset=base_offset)
    for number in range(count):
        builder.append(TIME_MS + number, None, b"value %d" % number, [("n", b"h")])
    return builder.build()


def test_arrays_of_records(spark: Any) -> None:
    raw = spark.createDataFrame([(batch(0, 2),), (None,), (b"",), (batch(5, 1) + batch(6, 1),)], "raw binary")
    (first, null, empty, last) = raw.select(functions.decode_records("raw", headers=True).alias("r")).collect()
    assert null.r is None
    assert empty.r == []
    assert [(row.offset, row.value, row.headers[0].key) for row in first.r] == [
        (0, b"value 0", "n"),
        (1, b"value 1", "n"),
    ]
    assert [row.offset for row in last.r] == [5, 6]
    flat = raw.selectExpr("raw").select(functions.decode_records("raw").alias("r")).selectExpr("inline(r)")
    assert flat.columns == ["key", "value", "offset", "timestamp", "timestampType"]
    assert flat.count() == 4


def test_time_has_a_zone_whatever_the_session_says(spark: Any, setting: Any) -> None:
    setting("spark.sql.timestampType", "TIMESTAMP_NTZ")
    raw = spark.createDataFrame([(batch(0, 1),)], "batches binary")
    raw.createOrReplaceTempView("times")
    functions.register_kafka_decode(spark, "times")
    for records in (
        raw.select(functions.decode_records("batches").alias("r")).selectExpr("inline(r)"),
        spark.sql("SELECT * FROM times(TABLE(SELECT batches FROM times))"),
    ):
        assert records.schema["timestamp"].dataType.simpleString() == "timestamp"
        assert records.first().timestamp.timestamp() * 1000 == TIME_MS


def test_reserved_words_are_names(spark: Any, setting: Any) -> None:
    from pyspark.sql.functions import lit

    setting("spark.sql.ansi.enforceReservedKeywords", "true")
    raw = spark.range(1).select(lit(batch(0, 1)).alias("batches"), lit("orders").alias("topic"))
    (row,) = raw.select(
        functions.decode_records("batches", headers=True, mode="PERMISSIVE"),
        functions.decode_message("batches", "HeartbeatRequest", 4, mode="PERMISSIVE"),
        functions.decode_request("batches", mode="PERMISSIVE"),
        functions.decode_response("batches", "Heartbeat", 4, mode="PERMISSIVE"),
        functions.decode_internal_record("topic", "batches", "batches"),
    ).collect()
    assert row[0][0].offset == 0
    assert row[4] is None
    raw.createOrReplaceTempView("reserved")
    functions.register_kafka_decode(spark, "words", headers=True, mode="PERMISSIVE")
    assert spark.sql("SELECT * FROM words(TABLE(SELECT batches, topic FROM reserved))").count() == 1


@pytest.mark.smoke
def test_damage_in_arrays(spark: Any) -> None:
    raw = spark.createDataFrame([(batch(0, 2) + b"garbage",)], "raw binary")
    records = raw.select(functions.decode_records("raw", mode="PERMISSIVE").alias("r")).selectExpr("inline(r)")
    (row,) = records.where("_corrupt is not null").collect()
    assert (row._corrupt.position, row._corrupt.size) == (len(batch(0, 2)), 7)
    assert records.where("_corrupt is null").count() == 2


def test_a_limit_to_decompression(spark: Any) -> None:
    rows = [(batch(0, 100, Compression.GZIP) + batch(100, 1, Compression.GZIP),)]
    raw = spark.createDataFrame(rows, "batches binary")
    raw.createOrReplaceTempView("compressed")
    given: dict[str, Any] = {"mode": "DROPMALFORMED", "decompressed_bytes_max": 1000}
    arrays = raw.select(functions.decode_records("batches", **given).alias("r")).selectExpr("inline(r)")
    functions.register_kafka_decode(spark, "limited", **given)
    for found in (arrays, spark.sql("SELECT * FROM limited(TABLE(SELECT batches FROM compressed))")):
        assert [row.offset for row in found.collect()] == [100]


@pytest.fixture
def open_transaction(spark: Any) -> Any:
    """Return a view of a value with one batch outside any transaction and one in an open transaction."""
    builder = BatchBuilder(base_offset=2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(TIME_MS, None, b"open")
    raw = spark.createDataFrame([(batch(0, 2) + builder.build(),)], "batches binary")
    raw.createOrReplaceTempView("transactions")
    return raw


@pytest.mark.parametrize(("level", "offsets"), [("read_uncommitted", [0, 1, 2]), ("read_committed", [0, 1])])
def test_isolation(spark: Any, open_transaction: Any, level: str, offsets: list[int]) -> None:
    records = functions.decode_records("batches", isolation_level=level).alias("r")
    assert [row.offset for row in open_transaction.select(records).first().r] == offsets
    functions.register_kafka_decode(spark, level, isolation_level=level)
    found = spark.sql(f"SELECT offset FROM {level}(TABLE(SELECT batches FROM transactions))")
    assert sorted(row.offset for row in found.collect()) == offsets


@pytest.mark.smoke
def test_the_table_function(spark: Any) -> None:
    rows = [(batch(0, 3), "orders", 1), (batch(9, 2), "payments", 2)]
    spark.createDataFrame(rows, "batches binary, topic string, partition int").createOrReplaceTempView("raw")
    functions.register_kafka_decode(spark, headers=True)
    found = spark.sql("SELECT * FROM kafka_decode(TABLE(SELECT batches, topic, partition FROM raw))")
    assert found.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert sorted((row.topic, row.partition, row.offset) for row in found.collect()) == [
        *(("orders", 1, offset) for offset in range(3)),
        *(("payments", 2, offset) for offset in (9, 10)),
    ]
    functions.register_kafka_decode(spark, "bare")
    bare = spark.sql("SELECT count(*), max(topic) FROM bare(TABLE(SELECT batches FROM raw))")
    assert tuple(bare.first()) == (5, None)


@pytest.mark.smoke
def test_messages(spark: Any) -> None:
    body = program(HeartbeatRequest, 4).encode(HeartbeatRequest("g", 3))
    frame = b"\0\x0c\0\4\0\0\0\7\0\1a\0" + body
    raw = spark.createDataFrame(
        [(body, frame, b"\0\0\0\7\0\0\0\0\0\0\0\0")], "body binary, frame binary, answer binary"
    )
    row = raw.select(
        functions.decode_message("body", "HeartbeatRequest", 4).alias("m"),
        functions.decode_request("frame").alias("q"),
        functions.decode_response("answer", "Heartbeat", 4).alias("a"),
        functions.decode_request("body", mode="PERMISSIVE").alias("e"),
    ).first()
    assert json.loads(row.m.message)["generationId"] == 3
    assert (row.q.api, row.q.version, row.q.correlationId, row.q.clientId) == ("Heartbeat", 4, 7, "a")
    assert row.a.correlationId == 7
    assert row.e.error


def test_internal_records(spark: Any) -> None:
    rows = [("__consumer_offsets", b"\0\2\0\1g", None), ("orders", b"k", b"v")]
    raw = spark.createDataFrame(rows, "topic string, key binary, value binary")
    decoded = raw.select(functions.decode_internal_record("topic", "key", "value").alias("r")).collect()
    assert [None if row.r is None else row.r.name for row in decoded] == ["GroupMetadata", None]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_damage_of_messages(spark: Any, mode: str) -> None:
    """Each function puts its error in the row."""
    raw = spark.createDataFrame([("__consumer_offsets", b"\0")], "topic string, data binary")
    row = raw.select(
        functions.decode_message("data", "HeartbeatRequest", 4, mode=mode),
        functions.decode_request("data", mode=mode),
        functions.decode_response("data", "Heartbeat", 4, mode=mode),
        functions.decode_internal_record("topic", "data", "data", mode=mode),
    ).first()
    assert [bool(each.error) for each in row] == [True] * 4


@pytest.mark.parametrize(
    "decode",
    [
        lambda: functions.decode_message("data", "HeartbeatRequest", 4),
        lambda: functions.decode_request("data"),
        lambda: functions.decode_response("data", "Heartbeat", 4),
        lambda: functions.decode_internal_record("topic", "data", "data"),
        lambda: functions.decode_records("data"),
    ],
    ids=["message", "request", "response", "internal", "records"],
)
def test_damage_ends_a_task(spark: Any, decode: Any) -> None:
    from pyspark.errors import PythonException

    raw = spark.createDataFrame([("__consumer_offsets", b"\0")], "topic string, data binary")
    with pytest.raises(PythonException, match=r"kafkawire\.sdk\.errors\.(Decode|RemoteProtocol)Error: "):
        raw.select(decode()).collect()


@pytest.mark.parametrize(
    ("decode", "reason"),
    [
        (lambda: functions.decode_message("number", "HeartbeatRequest", 4, mode="PERMISSIVE"), "message int32"),
        (lambda: functions.decode_request("text", mode="PERMISSIVE"), "request string"),
        (lambda: functions.decode_response("number", "Heartbeat", 4, mode="PERMISSIVE"), "response int32"),
        (lambda: functions.decode_internal_record("text", "number", "text", mode="PERMISSIVE"), "key int32"),
        (lambda: functions.decode_records("number", mode="PERMISSIVE"), "batches int32"),
    ],
    ids=["message", "request", "response", "internal", "records"],
)
def test_columns_of_other_types(spark: Any, decode: Any, reason: str) -> None:
    from pyspark.errors import PythonException

    raw = spark.range(1).selectExpr("cast(id as int) number", "'a' text")
    with pytest.raises(PythonException, match=f"ConfigurationError: column='{reason}': must be binary"):
        raw.select(decode()).collect()


def test_tables_that_cannot_be_read(spark: Any) -> None:
    from pyspark.errors import PythonException

    functions.register_kafka_decode(spark, "refusing")
    for content, reason in [
        ("TABLE(SELECT 7 batches)", "column='batches int32': must be binary"),
        ("X'00'", "expected a table, as in TABLE"),
    ]:
        with pytest.raises(PythonException, match=reason):
            spark.sql(f"SELECT * FROM refusing({content})").collect()


def test_nulls_without_a_type(spark: Any) -> None:
    from pyspark.sql.functions import lit

    (row,) = spark.range(1).select(functions.decode_records(lit(None)), functions.decode_request(lit(None))).collect()
    assert tuple(row) == (None, None)


def test_what_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="mode='x'"):
        functions.decode_records("raw", mode="x")
    with pytest.raises(ConfigurationError, match="decompressed_bytes_max=0: expected 1 to"):
        functions.decode_records("raw", decompressed_bytes_max=0)
    with pytest.raises(ConfigurationError, match="message='Nothing version 1'"):
        functions.decode_message("raw", "Nothing", 1)
    with pytest.raises(ConfigurationError, match="api='Nothing'"):
        functions.decode_response("raw", "Nothing", 1)
