"""The tables about groups show their last commits, and their lag at the time."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit.facts import FactKind
from kafkawire.sdk.spark.audit.group_tables import group_commits, groups
from tests.sdk.spark.audit.fact_frames import batch, frame, rows_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def commit(
    log_offset: int, offset: int | None, time_ms: int | None, group: str = "g", topic: str = "t"
) -> dict[str, Any]:
    return {
        "topic": "__consumer_offsets",
        "partition": 3,
        "lastOffset": log_offset,
        "group": group,
        "ofTopic": topic,
        "ofPartition": 0,
        "committedOffset": offset,
        "commitTimestampMs": time_ms,
    }


@pytest.fixture
def facts(spark: Any) -> tuple[Any, Any]:
    commits = [
        commit(0, 5, 1_500),
        commit(1, 25, 2_000),
        commit(2, 12, 3_500),
        commit(3, 7, 10, group="early"),
        commit(4, 1, 9_000, topic="elsewhere"),
        commit(5, 9, 9_000, group="gone"),
        commit(6, None, None, group="gone"),
        commit(7, -(2**63), 9_000, group="wrong"),
        commit(8, 99, 9_000, group="ahead"),
    ]
    batches = [
        batch(0, maxTimestampMs=1_000),
        batch(10, maxTimestampMs=3_000),
        batch(20, maxTimestampMs=2_000),
        batch(30, maxTimestampMs=-1),
    ]
    return frame(spark, FactKind.COMMIT, commits), frame(spark, FactKind.BATCH, batches)


def test_history(facts: tuple[Any, Any]) -> None:
    rows = rows_of(group_commits(*facts), "logOffset")
    assert [(row["group"], row["topic"], row["committedOffset"], row["logEndOffset"], row["lag"]) for row in rows] == [
        ("g", "t", 5, 10, 5),
        ("g", "t", 25, 30, 5),
        ("g", "t", 12, 30, 18),
        ("early", "t", 7, None, None),
        ("g", "elsewhere", 1, None, None),
        ("gone", "t", 9, 30, 21),
        ("wrong", "t", -(2**63), 30, None),
        ("ahead", "t", 99, 30, 0),
    ]


def test_transactions(spark: Any) -> None:
    """A transaction's commits count once the transaction is committed, in the order of the commits."""

    def sent(log_offset: int, offset: int, producer_id: int = 7, **columns: Any) -> dict[str, Any]:
        transaction = {"producerId": producer_id, "isTransactional": True}
        return commit(log_offset, offset, 9_000) | transaction | columns

    def end(log_offset: int, kind: str | None, producer_id: int = 7, partition: int = 3) -> dict[str, Any]:
        control = {"isControl": True, "isTransactional": True, "controlType": kind, "producerId": producer_id}
        return batch(log_offset, 1, topic="__consumer_offsets", partition=partition, **control)

    commits = [
        sent(0, 10),
        sent(1, 99, 8),
        end(2, "COMMIT"),
        sent(3, 20),
        end(4, "ABORT", 8),
        end(5, "COMMIT", partition=4),
        sent(6, 21),
        end(7, "ABORT"),
        sent(8, 12, 9),
        commit(9, 11, 9_000),
        sent(10, 30),  # its transaction is open, because the marker is in another partition
        end(11, None),
        end(12, "COMMIT", 9),
        end(13, "COMMIT", partition=4),
        sent(14, 5, group="none"),
    ]
    ends = [row for row in commits if "controlType" in row]
    facts = (
        frame(spark, FactKind.COMMIT, [row for row in commits if "controlType" not in row]),
        frame(spark, FactKind.BATCH, [*ends, batch(0, 100, maxTimestampMs=1_000)]),
    )
    rows = rows_of(group_commits(*facts), "logOffset")
    assert [(row["logOffset"], row["committedOffset"], row["lag"]) for row in rows] == [
        (0, 10, 90),
        (8, 12, 88),
        (9, 11, 89),
    ]
    (row,) = rows_of(groups(*facts), "group")
    assert (row["group"], row["committedOffset"], row["lag"], row["commits"]) == ("g", 11, 89, 3)


@pytest.mark.smoke
def test_groups(facts: tuple[Any, Any]) -> None:
    rows = rows_of(groups(*facts).selectExpr("*", "unix_millis(timestamp) ms"), "group", "topic")
    found = [
        (row["group"], row["topic"], row["committedOffset"], row["logEndOffset"], row["lag"], row["commits"], row["ms"])
        for row in rows
    ]
    assert found == [
        ("ahead", "t", 99, 40, 0, 1, 9_000),
        ("early", "t", 7, 40, 33, 1, 10),
        ("g", "elsewhere", 1, None, None, 1, 9_000),
        ("g", "t", 12, 40, 28, 3, 3_500),
        ("wrong", "t", -(2**63), 40, None, 1, 9_000),
    ]
