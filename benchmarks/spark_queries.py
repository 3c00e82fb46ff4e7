"""The queries to measure in Spark, which must give the same answer for each source.

Each query counts records and adds up the lengths of their values. Python sources have no column pruning, so all seven
columns are sent to Spark even if the query needs just one, unless the schema is limited to it. The connector builds
only the columns that the query needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow
import pyarrow.compute

from kafkawire.spark import decode_batches, read_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NOTHING_DECODED", "Answer", "Place", "Query", "of_batches", "of_topic", "write_batches"]

#: Most functions in pyarrow.compute are created at import time, so type checkers do not see them.
_COMPUTE: Any = pyarrow.compute

#: The number of records, and the size of their values.
Answer = tuple[int, int]
Query = Callable[[], Answer]

#: The lower bound for any decoder of a column, whose bytes are sent to a worker and back unchanged. Its answer differs.
NOTHING_DECODED = "nothing decoded"

_SUMS = "records bigint, bytes bigint"
_DECODED = "array<struct<key: binary, value: binary, offset: bigint, timestamp: bigint>>"


class Place(NamedTuple):
    """The place of a topic.

    Attributes:
        bootstrap: the address of the broker.
        folder: the folder with the broker's logs.
        topic: the topic name.
    """

    bootstrap: str
    folder: Path
    topic: str


def of_topic(spark: SparkSession, place: Place) -> dict[str, Query]:
    """Return the queries over a topic, keyed by name."""

    def connected(source: str, schema: str | None = None) -> Answer:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", place.bootstrap)
        reader = reader.option("subscribe", place.topic).option("startingOffsets", "earliest")
        return _summed((reader if schema is None else reader.schema(schema)).load())

    def segments(schema: str | None = None) -> Answer:
        return _summed(read_segments(spark, place.folder, topics=place.topic, schema=schema))

    def inside() -> Answer:
        rows = read_segments(
            spark, place.folder, topics=place.topic, columns=["value"], map_batches=_sums, schema=_SUMS
        )
        return _answer(rows.selectExpr("sum(records)", "sum(bytes)"))

    return {
        "Kafka connector": lambda: connected("kafka"),
        "kafka_segments": segments,
        "kafka_segments, values alone": lambda: segments("value binary"),
        "kafka_segments, summed up in Python": inside,
        "kafkawire": lambda: connected("kafkawire"),
        "kafkawire, values alone": lambda: connected("kafkawire", "value binary"),
    }


def write_batches(spark: SparkSession, place: Place, folder: Path, batches: int) -> None:
    """Write the first raw batches of a topic to Parquet files, one per row."""
    from kafkawire.sdk.records.stored import Memory, Stored, read_stored

    rows: list[bytes] = []
    for path in sorted(place.folder.glob(f"{place.topic}-*/*.log")):
        with path.open("rb") as file:
            content = Memory(mmap(file.fileno(), 0, access=ACCESS_READ))
            found = (each.batch.data for each in read_stored(content, is_growing=True) if isinstance(each, Stored))
            rows += map(bytes, islice(found, batches - len(rows)))
    spark.createDataFrame([(bytearray(row),) for row in rows], "batches binary").repartition(4).write.parquet(
        str(folder)
    )


def of_batches(spark: SparkSession, folder: Path) -> dict[str, Query]:
    """Return the queries over raw batches in a column, keyed by name."""
    from pyspark.sql import functions

    def by(decode: Callable[[bytes], list[tuple[Any, ...]]]) -> Answer:
        decoded = functions.udf(decode, _DECODED)
        rows = spark.read.parquet(str(folder)).select(functions.inline(decoded("batches")))
        return _summed(rows)

    return {
        "UDF on kafka-python": lambda: by(_kafka_python),
        "UDF on aiokafka": lambda: by(_aiokafka),
        "decode_batches": lambda: _summed(decode_batches(spark.read.parquet(str(folder)), "batches")),
        NOTHING_DECODED: lambda: _summed(
            spark.read.parquet(str(folder)).mapInArrow(_as_they_are, "batches binary"), "batches"
        ),
    }


def _summed(rows: DataFrame, column: str = "value") -> Answer:
    return _answer(rows.selectExpr("count(*)", f"sum(length({column}))"))


def _answer(rows: DataFrame) -> Answer:
    records, size = rows.collect()[0]
    return records, size


def _as_they_are(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    return rows


def _sums(rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    size = _COMPUTE.sum(_COMPUTE.binary_length(rows["value"])).as_py() or 0
    return pyarrow.RecordBatch.from_pydict({"records": [rows.num_rows], "bytes": [size]})


def _kafka_python(batches: bytes) -> list[tuple[Any, ...]]:
    from kafka.record import MemoryRecords

    return list(_fields(MemoryRecords(batches)))


def _aiokafka(batches: bytes) -> list[tuple[Any, ...]]:
    from aiokafka.record import MemoryRecords

    return list(_fields(MemoryRecords(batches)))


def _fields(records: Any) -> Iterator[tuple[Any, ...]]:
    while records.has_next():
        for record in records.next_batch():
            yield record.key, record.value, record.offset, record.timestamp_ms
