"""Spark counts the broker's records in the segment files.

Method: let the process that the demo starts count the records in a hand-built folder of segments. If Spark cannot run,
the test is skipped, and the reason is shown.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.commands.demo.demo_count import SparkCount
from kafkawire.sdk.records import BatchBuilder, Compression
from tests.needs import SPARK


def segment(folder: Path, partition: int, count: int, topic: str = "t") -> None:
    builder = BatchBuilder(compression=Compression.GZIP)
    for number in range(count):
        builder.append(1_700_000_000_000, None, b"value %d" % number)
    path = folder / f"{topic}-{partition}" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(builder.build())


@SPARK.mark
@pytest.mark.spark
@pytest.mark.thorough
def test_counts(tmp_path: Path) -> None:
    segment(tmp_path, 0, 3)
    segment(tmp_path, 1, 5)
    segment(tmp_path, 0, 7, "t-other")
    count = SparkCount(tmp_path, "t")
    try:
        assert count.counts() == {0: 3, 1: 5}
    finally:
        count.stop()


@pytest.mark.spark
@pytest.mark.thorough
def test_stop_before_the_answer(tmp_path: Path) -> None:
    count = SparkCount(tmp_path, "t")
    count.stop()
    with pytest.raises(ValueError, match="no answer"):
        count.counts()
