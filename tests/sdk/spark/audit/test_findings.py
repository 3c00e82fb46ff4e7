"""Findings report what an engineer needs to know, and nothing if all is well.

Method: check hand-built summaries in which one number is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.spark.audit.findings import Finding, Severity, findings_of, gini
from kafkawire.sdk.spark.audit.summary import Summary
from tests.sdk.spark.audit.summaries import partition, summary


def only(**numbers: Any) -> list[Finding]:
    row = partition("orders", 3, **{"records": 100, "sizeBytes": 1000, "plainBytes": 3000, **numbers})
    return findings_of(Summary(partitions=[row]))


@pytest.mark.parametrize(
    ("numbers", "severity", "text"),
    [
        ({"corruptRegions": 1, "corruptBytes": 2048}, Severity.BAD, "1 corrupt region, 2.00 KiB"),
        (
            {"gaps": 2, "unknownGaps": 2, "unknownGapOffsets": 9},
            Severity.BAD,
            "1 partition with unexplained gaps",
        ),
        ({"gaps": 2, "gapOffsets": 9}, Severity.NOTE, "1 partition with gaps left by compaction"),
        (
            {"gaps": 2, "gapOffsets": 9, "removedGaps": 2},
            Severity.NOTE,
            "1 partition from which records were removed before they were audited",
        ),
        ({"lostAltogether": 9}, Severity.BAD, "1 partition has no segment"),
        ({"lostAtStart": 9}, Severity.BAD, "1 partition lacks its first segment"),
        ({"lostAtEnd": 9}, Severity.BAD, "1 partition ends before its high watermark"),
        ({"lostRecords": 1234}, Severity.BAD, "1,234 records probably lost"),
        ({"cutBytes": 1234}, Severity.WARNING, "1 partition ends inside a batch (1,234 bytes)"),
        ({"zeroBytes": 4096}, Severity.WARNING, "1 partition with zeros at the end (4,096 bytes)"),
        ({"epochSteps": 2}, Severity.WARNING, "1 partition whose leader epoch decreases"),
        ({"isNamed": False}, Severity.NOTE, "1 partition missing from the high watermarks"),
        ({"segmentsWithoutIndex": 2}, Severity.NOTE, "2 segments without an index"),
        ({"duplicateBatches": 1, "duplicateRecords": 12}, Severity.WARNING, "12 records written twice"),
        ({"openTransactions": 1}, Severity.WARNING, "1 open transaction"),
        ({"transactions": 4, "abortedTransactions": 1, "abortedRecords": 7}, Severity.NOTE, "1 aborted transaction"),
        ({"lateBatches": 1, "maxLateMs": 60_000}, Severity.NOTE, "1 partition with records at least a minute late"),
    ],
)
def test_one(numbers: dict[str, int], severity: Severity, text: str) -> None:
    (finding,) = only(**numbers)
    assert (finding.severity, finding.text) == (severity, text)
    assert "orders-3" in finding.detail


def test_damage_is_reported_where_there_is_no_list() -> None:
    (finding,) = only(corruptRegions=1, corruptBytes=2048)
    assert finding.detail == "orders-3: a wrong checksum, or no batch at all"


def test_what_is_lost_in_all() -> None:
    """The worst partitions are named, each with its loss."""
    rows = [partition("t", number, lostRecords=10**number, lostAtEnd=10**number) for number in range(5)]
    first, second = findings_of(Summary(partitions=rows))
    assert first.text == "11,111 records probably lost"
    assert first.detail.startswith("t-4 (10.0 k), t-3 (1.00 k), t-2 (100) and 2 more; ")
    assert second.text == "5 partitions end before their high watermark"
    assert second.detail.startswith("t-0, t-1, t-2 and 2 more: 11.1 k offsets; ")


def test_all_is_well() -> None:
    assert only() == []
    assert only(lateBatches=1, maxLateMs=59_999) == []
    assert findings_of(Summary()) == []


def test_topics_and_groups() -> None:
    texts = [finding.text for finding in findings_of(summary())]
    assert texts == ["1 group behind by 2.00 k records", "One key has 76.2 % of the records of orders"]


def test_only_gaps_that_nothing_explains_are_counted_as_such() -> None:
    (finding,) = only(gaps=3, gapOffsets=1009, unknownGaps=1, unknownGapOffsets=9)
    assert finding.detail == (
        "orders-3: 9 offsets; a segment may be missing, or compaction removed whole batches and left no trace"
    )


def test_aborted_transactions_are_compared_with_those_that_ended() -> None:
    found = only(transactions=5, abortedTransactions=1, openTransactions=1, abortedRecords=7)
    assert found[1].detail == "25 % of those that ended in orders-3, 7 records in all"


@pytest.mark.parametrize(("partitions", "where"), [(1, "partition 1"), (6, "6 partitions")])
def test_where_a_hot_key_is(partitions: int, where: str) -> None:
    (row,) = summary().top_keys
    found = findings_of(summary(top_keys=[{**row, "partitions": partitions}]))
    assert found[1].detail == f"one of 20 keys; its records are in {where}"


@pytest.mark.parametrize(("records", "text"), [(100_000, None), (10_000, "One key has 61 % of the records of orders")])
def test_a_hot_key_is_compared_with_all_records(records: int, text: str | None) -> None:
    """The share includes records without a key, which the share in the table does not."""
    (row,) = summary().top_keys
    rows = [partition("orders", 0, records=records, sizeBytes=1000, plainBytes=3000, keys=20)]
    found = findings_of(summary(partitions=rows, top_keys=[{**row, "share": 1.0}], groups=[]))
    assert [finding.text for finding in found] == ([] if text is None else [text])


def test_groups_that_are_not_shown_are_counted() -> None:
    finding = findings_of(summary(groups_behind=1234, lag=9_000_000))[0]
    assert finding.text == "1,234 groups behind by 9.00 M records"
    assert finding.detail == "billing and 1,233 more; billing by 2.00 k in orders-0"


def test_large_partitions_compression_and_compaction() -> None:
    rows = [
        partition(
            "t", 0, records=5000, sizeBytes=9_000_000, plainBytes=9_000_000, recordBytes=100_000, supersededBytes=50_000
        ),
        *(partition("t", number, records=10, sizeBytes=1000, plainBytes=1000) for number in (1, 2)),
    ]
    found = findings_of(Summary(partitions=rows))
    assert [finding.text for finding in found] == [
        "Partition 0 of t is 3.0 times as large as the mean",
        "t is hardly compressed",
        "Compaction would free at least half the bytes of 1 topic",
    ]
    assert found[2].detail == "50 % of t"


@pytest.mark.parametrize(("topic", "count"), [("__consumer_offsets", 0), ("__transaction_state", 0), ("__orders", 4)])
def test_topics_of_kafka_itself(topic: str, count: int) -> None:
    """The way Kafka writes them causes no finding; an application's topic may begin with two underscores, too."""
    size = {"sizeBytes": 9_000_000, "plainBytes": 9_000_000}
    rows = [
        partition(topic, 0, records=8000, recordBytes=100_000, supersededBytes=90_000, **size),
        *(partition(topic, number, records=10, sizeBytes=1000, plainBytes=1000) for number in (1, 2)),
    ]
    assert len(findings_of(summary(topic, partitions=rows, groups=[]))) == count


def test_the_worst_comes_first() -> None:
    found = only(openTransactions=1, corruptRegions=1, gaps=1)
    assert [finding.severity for finding in found] == [Severity.BAD, Severity.WARNING]


def test_names_are_limited() -> None:
    rows = [partition("t", number, corruptRegions=1, corruptBytes=1) for number in range(9)]
    (finding,) = findings_of(Summary(partitions=rows))
    assert finding.detail.startswith("t-0, t-1, t-2 and 6 more: ")


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([], 0.0), ([(10, 50)], 0.0), ([(1, 0), (1, 7)], 0.5), ([(99, 0), (1, 7)], 0.99), ([(2, 2), (2, 4)], 1 / 6)],
)
def test_gini(counts: list[tuple[int, int]], expected: float) -> None:
    assert gini(counts) == pytest.approx(expected)
