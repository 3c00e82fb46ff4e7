"""Each partition has a row with the totals from the other tables, or 0 if they have no row for the partition."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit import log_tables
from kafkawire.sdk.spark.audit.facts import FactKind
from kafkawire.sdk.spark.audit.key_tables import compaction, keys_of_partitions
from kafkawire.sdk.spark.audit.partition_table import partitions
from kafkawire.sdk.spark.audit.tables import LOSSES_DDL, PARTITION_FACTS_DDL
from tests.sdk.spark.audit.fact_frames import batch, damage, frame, rows_of
from tests.sdk.spark.audit.summaries import partition

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


@pytest.mark.smoke
def test_partitions(spark: Any) -> None:
    facts = [
        batch(5, path="a.log", producerId=1, leaderEpoch=3),
        batch(20, path="b.log", plainBytes=500),
        batch(30, 1, isControl=True),
        damage(31, 10),
        batch(40, leaderEpoch=1),
        batch(60, run=2),
        damage(70, 900, tail="cut", run=2),
        damage(None, 0, partition=1),
    ]
    batches = frame(spark, FactKind.BATCH, facts)
    keys = keys_of_partitions(frame(spark, FactKind.KEY, []))
    known = [("t", 0, None, 5, 90, "h", True, 1), ("t", 2, None, 7, 7, "h", False, 0)]
    partition_facts = spark.createDataFrame(known, PARTITION_FACTS_DDL)
    noted = [("t", 0, 70, 90, 20, "end", "h"), ("t", 0, 0, 5, 5, "start", "e"), ("t", 2, 3, 7, 4, "partition", "h")]
    gaps = log_tables.gaps(batches, partition_facts)
    losses = log_tables.losses(gaps, spark.createDataFrame(noted, LOSSES_DDL))
    made = {"compaction": compaction(keys), "gaps": gaps, "losses": losses} | {
        name: getattr(log_tables, name)(batches)
        for name in ("compression", "duplicates", "transactions", "lateness", "corrupt")
    }
    first, second, third = rows_of(partitions(batches, partition_facts, made.__getitem__), "partition")
    assert set(first) == set(partition("t", 0))  # added by the report's tests
    expected = {"startOffset": 5, "endOffset": 70, "segments": 2, "controlBatches": 1, "producers": 1, "records": 40}
    expected |= {"batches": 4, "sizeBytes": 400, "plainBytes": 1400, "gaps": 3, "gapOffsets": 24}
    expected |= {"removedGaps": 1, "unknownGaps": 1, "unknownGapOffsets": 5}
    expected |= {"corruptRegions": 1, "corruptBytes": 50, "keys": 0, "transactions": 0, "leaderEpoch": 3}
    expected |= {"logStartOffset": 5, "reachedOffset": 90, "reachedFile": "h", "isNamed": True}
    expected |= {"segmentsWithoutIndex": 1, "cutBytes": 50, "zeroBytes": 0, "epochSteps": 1}
    expected |= {"lostRecords": 39, "lostAtStart": 5, "lostAtEnd": 20, "lostAltogether": 0}
    assert {name: first[name] for name in expected} == expected
    assert first["compressionRatio"] == pytest.approx(7 / 2)
    assert (second["startOffset"], second["records"], second["corruptRegions"]) == (None, 0, 1)
    assert (second["compressionRatio"], second["plainBytes"]) == (None, None)
    assert (third["startOffset"], third["segments"], third["records"], third["lostAltogether"]) == (None, 0, 0, 4)
    assert (third["logStartOffset"], third["isNamed"], second["isNamed"]) == (7, False, None)
