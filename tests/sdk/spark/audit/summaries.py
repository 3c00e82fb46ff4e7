"""Handmade summaries for tests of the report, so that a page can be checked without Spark."""

from __future__ import annotations

from typing import Any

from kafkawire.sdk.spark.audit.plots import TimeFrame
from kafkawire.sdk.spark.audit.summary import Summary

START_MS = 1_700_000_400_000
FRAME = TimeFrame(START_MS, START_MS + 40 * 60_000, 60_000)

_COUNTS = (
    *("batches", "records", "sizeBytes", "controlBatches", "producers", "segments", "gaps", "gapOffsets"),
    *(
        "removedGaps",
        "unknownGaps",
        "unknownGapOffsets",
        "duplicateBatches",
        "duplicateRecords",
        "transactions",
        "abortedTransactions",
    ),
    *("abortedRecords", "openTransactions", "lateBatches", "maxLateMs", "backwards", "corruptRegions"),
    *("corruptBytes", "keys", "recordsWithoutKey", "supersededRecords", "supersededBytes", "tombstones"),
    *("recordBytes", "lostRecords", "lostAtStart", "lostAtEnd", "lostAltogether", "cutBytes", "zeroBytes"),
    *("epochSteps", "segmentsWithoutIndex"),
)


def partition(topic: str, number: int, **numbers: Any) -> dict[str, Any]:
    """Return a row for the table of partitions; omitted columns are 0."""
    size = numbers.get("sizeBytes", 0)
    plain = numbers.get("plainBytes", size)
    return {
        "topic": topic,
        "partition": number,
        **dict.fromkeys(_COUNTS, 0),
        "startOffset": 0,
        "endOffset": numbers.get("records", 0),
        "leaderEpoch": 0,
        "logStartOffset": None,
        "reachedOffset": None,
        "reachedFile": None,
        "isNamed": None,
        "firstTimestamp": START_MS,
        "lastTimestamp": FRAME.end_ms,
        "plainBytes": plain,
        "compressionRatio": plain / size if size else None,
        **numbers,
    }


def summary(topic: str = "orders", key: bytes = b"key", group: str = "billing", **more: Any) -> Summary:
    """Return a summary of one topic with two partitions that contains every kind of finding."""
    found = Summary(
        partitions=[
            partition(topic, 0, records=5000, batches=50, sizeBytes=400_000, plainBytes=900_000, keys=10),
            partition(topic, 1, records=3000, batches=30, sizeBytes=100_000, plainBytes=300_000, keys=10),
        ],
        frame=FRAME,
        rates=[
            {"topic": topic, "time": START_MS + minute * 60_000, "records": 100 + minute, "recordBytes": 9000}
            for minute in range(40)
        ],
        compression=[
            {"topic": topic, "compression": "zstd", "batches": 50, "records": 5000}
            | {"sizeBytes": 400_000, "plainBytes": 900_000}
        ],
        lateness=[
            {"topic": topic, "lateMs": None, "batches": 70, "maxLateMs": 0},
            {"topic": topic, "lateMs": 60_000, "batches": 10, "maxLateMs": 90_000},
        ],
        key_counts=[
            {"topic": topic, "keys": 19, "records": 1900},
            {"topic": topic, "keys": 1, "records": 6100},
        ],
        top_keys=[
            {"topic": topic, "rank": 1, "key": key, "records": 6100, "share": 0.7625, "recordBytes": 61_000}
            | {"partition": 1, "partitions": 1}
        ],
        groups=[
            {"group": group, "topic": topic, "partition": 0, "committedOffset": 3000, "logEndOffset": 5000}
            | {"lag": 2000, "timestamp": FRAME.end_ms, "commits": 7},
            {"group": group, "topic": "elsewhere", "partition": 0, "committedOffset": 1, "logEndOffset": None}
            | {"lag": None, "timestamp": None, "commits": 1},
        ],
        groups_count=1,
        groups_behind=1,
        lag=2000,
        lag_frame=FRAME,
        lags=[
            {"group": group, "topic": topic, "time": START_MS + minute * 60_000, "lag": 2.0 * minute}
            for minute in range(40)
        ],
    )
    return found._replace(**more)
