"""Merged facts produce the same tables from fewer rows.

Method: merge hand-built facts from two runs that found the same damage and the same keys.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit.facts import FACTS, FactKind, fact_ddl
from kafkawire.sdk.spark.audit.merging import merged
from tests.sdk.spark.audit.fact_frames import batch, damage

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def test_merged(spark: Any) -> None:
    place = {"topic": "t", "partition": 0}
    key = {**place, "key": b"k", "records": 3, "recordBytes": 30, "lastBytes": 10, "lastIsTombstone": False}
    minute = {**place, "minute": 5, "records": 3, "recordBytes": 30}
    transaction = {"producerId": 7, "isTransactional": True}
    facts = [
        ("batch", batch(0)),
        ("batch", damage(10, 100)),
        ("batch", damage(10, 100, sizeBytes=70, run=2)),
        ("batch", batch(20, run=2)),
        ("key", {**key, "lastOffset": 9}),
        ("key", {**key, "lastOffset": 29, "lastBytes": 1, "lastIsTombstone": True, "run": 2}),
        ("minute", minute),
        ("minute", {**minute, "run": 2}),
        ("commit", {**place, "group": "g", "ofTopic": "t", "ofPartition": 1, "lastOffset": 4, **transaction}),
    ]
    names = [*FACTS, "notedRun", "run"]
    values = [(kind, *({"run": 1, **row}.get(name) for name in names)) for kind, row in facts]
    found = merged(spark.createDataFrame(values, f"{fact_ddl()}, run int").drop("notedRun"))
    assert found.columns == ["kind", *FACTS, "notedRun"]
    rows = {str(kind): [row.asDict() for row in found.collect() if row.kind == kind] for kind in FactKind}
    assert sorted((row["baseOffset"], row["sizeBytes"], row["reason"]) for row in rows["batch"] if row["reason"]) == [
        (10, 70, "checksum")
    ]
    noted = sorted((row["baseOffset"], row["notedRun"]) for row in rows["batch"] if not row["reason"])
    assert noted == [(0, 1), (20, 2)]
    (of_key,) = rows["key"]
    assert (of_key["records"], of_key["recordBytes"], of_key["lastOffset"]) == (6, 60, 29)
    assert (of_key["lastBytes"], of_key["lastIsTombstone"]) == (1, True)
    assert [(row["minute"], row["records"], row["recordBytes"]) for row in rows["minute"]] == [(5, 6, 60)]
    names = ("group", "lastOffset", "producerId", "isTransactional")
    assert [tuple(row[name] for name in names) for row in rows["commit"]] == [("g", 4, 7, True)]
