"""The public Spark module can be imported without Spark, and provides the names that it lists."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkawire import spark
from kafkawire.sdk.spark.audit import audit, batches
from kafkawire.sdk.spark.columns import decode, functions
from kafkawire.sdk.spark.segments import frame


def test_names() -> None:
    assert spark.__all__ == sorted(
        [name for module in (decode, functions, frame, batches, audit) for name in module.__all__]
        + ["Finding", "KafkaSegments", "KafkaWire", "Severity"]
    )
    assert spark.decode_batches is decode.decode_batches
    assert spark.decode_records is functions.decode_records
    assert spark.read_segments is frame.read_segments
    assert spark.read_batches is batches.read_batches
    assert spark.audit is audit.audit
    with pytest.raises(AttributeError, match="has no attribute 'KafkaTopics'"):
        _ = spark.KafkaTopics  # type: ignore[attr-defined]  # the point of the test


def test_data_sources() -> None:
    pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")
    from kafkawire.sdk.spark.brokers.source import KafkaWire
    from kafkawire.sdk.spark.segments.source import KafkaSegments

    assert spark.KafkaSegments is KafkaSegments
    assert spark.KafkaWire is KafkaWire


def test_findings() -> None:
    from kafkawire.sdk.spark.audit import findings

    assert spark.Finding is findings.Finding
    assert spark.Severity is findings.Severity


def test_import_does_not_need_spark() -> None:
    code = "import sys, kafkawire.spark; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
