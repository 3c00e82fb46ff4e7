"""A row for each partition has what the other tables come to, and 0 where they say nothing."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit import log_tables
from kafkawire.sdk.spark.audit.facts import FactKind
from kafkawire.sdk.spark.audit.key_tables import compaction, keys_of_partitions
from kafkawire.sdk.spark.audit.partition_table import partitions
from tests.sdk.spark.audit.fact_frames import batch, damage, frame, rows_of
from tests.sdk.spark.audit.summaries import partition

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def test_partitions(spark: Any) -> None:
    facts = [
        batch(5, path="a.log", producerId=1, leaderEpoch=3),
        batch(20, path="b.log", plainBytes=500),
        batch(30, 1, isControl=True),
        damage(31, 10),
        batch(40, leaderEpoch=1),
        damage(None, 0, partition=1),
    ]
    batches = frame(spark, FactKind.BATCH, facts)
    keys = keys_of_partitions(frame(spark, FactKind.KEY, []))
    made = {"compaction": compaction(keys)} | {
        name: getattr(log_tables, name)(batches)
        for name in ("compression", "gaps", "duplicates", "transactions", "lateness", "corrupt")
    }
    first, second = rows_of(partitions(batches, made.__getitem__), "partition")
    assert set(first) == set(partition("t", 0))  # what the report's tests say
    expected = {"startOffset": 5, "endOffset": 50, "segments": 2, "controlBatches": 1, "producers": 1, "records": 30}
    expected |= {"batches": 3, "sizeBytes": 300, "plainBytes": 1100, "gaps": 2, "gapOffsets": 14}
    expected |= {"unknownGaps": 1, "unknownGapOffsets": 5}
    expected |= {"corruptRegions": 1, "corruptBytes": 50, "keys": 0, "transactions": 0, "leaderEpoch": 3}
    assert {name: first[name] for name in expected} == expected
    assert first["compressionRatio"] == pytest.approx(11 / 3)
    assert (second["startOffset"], second["records"], second["corruptRegions"]) == (None, 0, 1)
    assert (second["compressionRatio"], second["plainBytes"]) == (None, None)
