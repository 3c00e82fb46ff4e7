"""However large a batch becomes, a Spark worker uses less than 1 GiB, and a batch above the limit is reported.

Method: send batches of a few KB that expand to 100 MiB, or to millions of objects, through each path to rows in a small
local Spark, several in a row, and read the workers' peak memory from the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.records import Compression, MessageSetBuilder
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from tests.sdk.records.bombs import bomb, headers_of_a_record, small_records, value_of_a_record
from tests.sdk.spark.segments.logs import batch
from tools.processes import peak_memory_mb

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.columns.decode import decode_batches
from kafkawire.sdk.spark.columns.functions import decode_records, register_kafka_decode
from kafkawire.spark import KafkaSegments

pytestmark = pytest.mark.timeout(400)

WORKER_MAX_MB = 1024
EXTRA = ["sequence", "compression", "batchPosition"]
#: The number of copies of each bomb in the input; their garbage must not add up.
COPIES = 3

#: The number of small records; as objects, they would take some 500 MB.
RECORDS = 3_000_000
OLD_MESSAGES = 100_000
#: The number of headers in one record, as small as possible, in a batch of the maximum decompressed size.
HEADERS = MAX_DECOMPRESSED_BYTES // 2 - 100


def old_messages() -> bytes:
    builder = MessageSetBuilder(1, Compression.GZIP, base_offset=10)
    for _ in range(OLD_MESSAGES):
        builder.append(0, None, b"")
    return builder.build()


#: Each bomb, with the number of its records that are read, or None if it is damage.
BOMBS: dict[str, tuple[Callable[[], bytes], int | None]] = {
    "records": (lambda: bomb(Compression.ZSTD, small_records(RECORDS), RECORDS), RECORDS),
    "headers": (lambda: bomb(Compression.LZ4, headers_of_a_record(HEADERS)), None),
    "names to look at": (lambda: bomb(Compression.ZSTD, headers_of_a_record(HEADERS // 2, b"\xc3\xa9")), None),
    "fewer headers": (lambda: bomb(Compression.GZIP, headers_of_a_record(HEADERS // 16)), 1),
    "a value": (lambda: bomb(Compression.SNAPPY, value_of_a_record(MAX_DECOMPRESSED_BYTES // 2)), 1),
    "too much": (lambda: bomb(Compression.GZIP, bytes(4 * MAX_DECOMPRESSED_BYTES)), None),
    "old messages": (old_messages, OLD_MESSAGES),
}


@pytest.fixture(scope="module", params=BOMBS)
def case(request: pytest.FixtureRequest) -> tuple[bytes, int, int]:
    """Return a bomb between two batches of 10 records, and the records and damaged regions in `COPIES` of it."""
    make, records = BOMBS[request.param]
    damages = 0 if records is not None else COPIES
    between = (10).to_bytes(8, "big") + make()[8:] if request.param != "old messages" else make()
    return batch(0) + between + batch(1 << 30), COPIES * ((records or 0) + 20), damages


def check(found: Any, records: int, damages: int) -> None:
    (row,) = found.selectExpr("count_if(_corrupt is null)", "count_if(_corrupt is not null)").collect()
    assert tuple(row) == (records, damages)
    check_workers()


def check_workers() -> None:
    assert max(size for name, size in peak_memory_mb().items() if name.startswith("python")) < WORKER_MAX_MB


def test_column(spark: Any, case: tuple[bytes, int, int]) -> None:
    data, records, damages = case
    raw = spark.createDataFrame([(data,)] * COPIES, "raw binary").coalesce(1)
    check(decode_batches(raw, "raw", headers=True, extra=EXTRA, mode="PERMISSIVE"), records, damages)


def test_table_function(spark: Any, case: tuple[bytes, int, int]) -> None:
    data, records, damages = case
    spark.createDataFrame([(data,)] * COPIES, "batches binary").coalesce(1).createOrReplaceTempView("bombs")
    register_kafka_decode(spark, "decode_bombs", headers=True, extra=EXTRA, mode="PERMISSIVE")
    check(spark.sql("SELECT * FROM decode_bombs(TABLE(SELECT batches FROM bombs))"), records, damages)


def test_segments(spark: Any, case: tuple[bytes, int, int], tmp_path: Path) -> None:
    data, records, damages = case
    for number in range(COPIES):
        (tmp_path / f"bombs-{number}").mkdir()
        (tmp_path / f"bombs-{number}" / f"{0:020}.log").write_bytes(data)
    spark.dataSource.register(KafkaSegments)
    reader = spark.read.format("kafka_segments").option("includeHeaders", True).option("mode", "PERMISSIVE")
    check(reader.load(str(tmp_path)), records, damages)


def test_lists(spark: Any, case: tuple[bytes, int, int]) -> None:
    """A list has to be complete; a list that is too large is an error that suggests a way out."""
    from pyspark.errors import PythonException

    data, records, damages = case
    raw = spark.createDataFrame([(data,)] * COPIES, "raw binary").coalesce(1)
    lists = raw.select(decode_records("raw", headers=True, extra=EXTRA, mode="PERMISSIVE").alias("r"))
    if records > 1_000_000:
        with pytest.raises(PythonException, match="take more than 268435456 bytes as arrays; use decode_batches"):
            lists.selectExpr("size(r)").collect()
        check_workers()
    else:
        check(lists.selectExpr("inline(r)"), records, damages)
