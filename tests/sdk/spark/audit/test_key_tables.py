"""Tables about keys show superseded records, skew and the most frequent keys, merged from several tasks and runs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit.facts import FactKind
from kafkawire.sdk.spark.audit.key_tables import TOP_KEYS, compaction, key_counts, keys_of_partitions, top_keys
from tests.sdk.spark.audit.fact_frames import frame, rows_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def fact(key: bytes | None, records: int, last_offset: int, **columns: Any) -> dict[str, Any]:
    sums = {"records": records, "recordBytes": 10 * records, "lastOffset": last_offset, "lastBytes": 10}
    return {"topic": "t", "partition": 0, "key": key, "lastIsTombstone": False, **sums, **columns}


@pytest.fixture(scope="module")
def keys(spark: Any) -> Any:
    facts = [
        fact(b"a", 5, 100),
        fact(b"a", 2, 50, lastIsTombstone=True, lastBytes=1),
        fact(b"b", 1, 101, lastIsTombstone=True, recordBytes=1, lastBytes=1),
        fact(None, 4, 102, lastIsTombstone=True),
        fact(b"a", 3, 7, partition=1),
        fact(b"c", 1, 8, topic="u"),
    ]
    return keys_of_partitions(frame(spark, FactKind.KEY, facts)).persist()


def test_compaction(keys: Any) -> None:
    first, second, _ = rows_of(compaction(keys), "topic", "partition")
    assert first == {
        "topic": "t",
        "partition": 0,
        "keys": 2,
        "recordsWithoutKey": 4,
        "supersededRecords": 6,
        "supersededBytes": 60,
        "tombstones": 1,
        "records": 12,
        "recordBytes": 111,
    }
    assert (second["keys"], second["supersededBytes"], second["recordsWithoutKey"]) == (1, 20, 0)


def test_counts_of_counts(keys: Any) -> None:
    rows = rows_of(key_counts(keys), "topic", "recordsOfKey")
    assert [tuple(row.values()) for row in rows] == [("t", 1, 1), ("t", 10, 1), ("u", 1, 1)]


@pytest.mark.smoke
def test_top_keys(spark: Any, keys: Any) -> None:
    rows = rows_of(top_keys(keys), "topic", "rank")
    assert [(row["topic"], row["rank"], row["key"], row["records"], row["partitions"]) for row in rows] == [
        ("t", 1, b"a", 10, 2),
        ("t", 2, b"b", 1, 1),
        ("u", 1, b"c", 1, 1),
    ]
    assert rows[0]["share"] == pytest.approx(10 / 11)  # of the records that have a key
    many = [fact(b"%d" % number, number, number) for number in range(1, 50)]
    rows = rows_of(top_keys(keys_of_partitions(frame(spark, FactKind.KEY, many))), "rank")
    assert [row["records"] for row in rows] == list(range(49, 49 - TOP_KEYS, -1))
