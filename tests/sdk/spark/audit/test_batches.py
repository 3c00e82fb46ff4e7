"""The batches in segments are returned as a DataFrame, with the options of `kafka_segments`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.records import Compression
from kafkawire.sdk.spark.audit.batches import read_batches
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, records_of, write_segment

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    broken = bytearray(batch(20))
    broken[-1] ^= 1
    batches = [batch(0, compression=Compression.GZIP), records_of(10, 7), marker(11, 7, is_commit=True), bytes(broken)]
    write_segment(tmp_path / "t-0", batches)
    write_segment(tmp_path / "u-0", [batch(0)])
    return tmp_path


def test_batches(spark: Any, folder: Path) -> None:
    rows = read_batches(spark, folder, topics=["t"], mode="PERMISSIVE").orderBy("position").collect()
    assert [(row.baseOffset, row.lastOffset, row.controlType, row.reason is None) for row in rows] == [
        (0, 9, None, True),
        (10, 10, None, True),
        (11, 11, "COMMIT", True),
        (12, None, None, False),
    ]
    assert rows[0].plainBytes is None
    opened = read_batches(
        spark, folder, topics=["t"], mode="DROPMALFORMED", reads_records=True, startingOffsets={"t": {"0": 10}}
    )
    assert [
        (row.baseOffset, row.minTimestampMs, row.plainBytes is None) for row in opened.orderBy("position").collect()
    ] == [
        (10, TIME_MS + 10, False),
        (11, None, True),
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "checksum"),
        ({"topic": "t"}, "no such option"),
        ({"isolationLevel": "read_committed"}, "only supported when records are read"),
    ],
)
def test_refused(spark: Any, folder: Path, options: dict[str, Any], reason: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=reason):
        read_batches(spark, folder, **options).collect()
