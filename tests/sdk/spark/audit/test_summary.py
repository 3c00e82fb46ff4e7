"""The report's data is limited in size, is ordered by time, and does not depend on the session's time zone.

Method: summarize hand-built tables, in a session that has India's time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kafkawire.sdk.spark.audit.plots import TimeFrame
from kafkawire.sdk.spark.audit.summary import ROWS_SHOWN, TOPICS_SHOWN, Summary, frame_of, shown_topics

MINUTE = 60_000
START_MS = 1_700_000_400_000


def test_topics_that_are_shown() -> None:
    rows = [{"topic": f"t{number:02}", "sizeBytes": number} for number in range(20)]
    rows += [{"topic": "__consumer_offsets", "sizeBytes": 10**9}, {"topic": "t03", "sizeBytes": 500}]
    assert shown_topics(rows)[:3] == ["t03", "t19", "t18"]
    assert len(shown_topics(rows)) == TOPICS_SHOWN
    assert shown_topics(rows[-2:]) == ["t03", "__consumer_offsets"]
    assert shown_topics([*rows[-2:], {"topic": "__own", "sizeBytes": 600}]) == ["__own", "t03", "__consumer_offsets"]
    assert Summary(partitions=rows).topics == shown_topics(rows)


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (0, TimeFrame(START_MS, START_MS + MINUTE, MINUTE)),
        (100, TimeFrame(START_MS, START_MS + 101 * MINUTE, MINUTE)),
        (1440, TimeFrame(1_700_000_100_000, 1_700_086_500_000 + 15 * MINUTE, 15 * MINUTE)),
    ],
)
def test_frame(minutes: int, expected: TimeFrame) -> None:
    found = frame_of(START_MS, START_MS + minutes * MINUTE)
    assert found == expected
    assert (found.end_ms - found.start_ms) % found.step_ms == 0


def test_very_long_times() -> None:
    found = frame_of(0, 10**15)
    assert found.step_ms == 525_600 * MINUTE


def at(minute: int) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000 + 60 * minute, UTC)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(300)
def test_rates_and_lags(spark: Any) -> None:
    from kafkawire.sdk.spark.audit import summary as module

    rates = spark.createDataFrame(
        [
            ("a", 0, at(0), 5000, 10),
            ("a", 1, at(1), 5000, 10),
            ("b", 0, at(1), 1, 10),
            ("b", 0, at(500_000), 1, 1),
            ("c", 0, at(1), 7, 3),
        ],
        "topic string, partition int, minute timestamp, records bigint, recordBytes bigint",
    )
    from pyspark.sql import functions as f

    frame = module._frame(rates, "minute", f.col("records"))
    assert frame == TimeFrame(START_MS, START_MS + 2 * MINUTE, MINUTE)
    assert frame is not None
    assert [tuple(row.values()) for row in module._rates(rates, frame, ["a", "b"])] == [
        (None, START_MS + MINUTE, 7, 3),
        ("a", START_MS, 5000, 10),
        ("a", START_MS + MINUTE, 5000, 10),
        ("b", START_MS + MINUTE, 1, 10),
    ]
    commits = spark.createDataFrame(
        [
            ("g", "a", 0, at(0), 9, 1),
            ("g", "a", 0, at(0), 4, 2),
            ("g", "a", 1, at(1), 3, 3),
            ("g", "a", 0, at(99), 9, 4),
            ("h", "a", 0, at(0), 2**63 - 1, 5),
            ("h", "a", 1, at(0), 2**63 - 1, 6),
            ("h", "a", 1, at(1), 0, 7),
        ],
        "`group` string, topic string, partition int, timestamp timestamp, lag bigint, logOffset bigint",
    )
    assert [tuple(row.values()) for row in module._lags(commits, frame)] == [
        ("g", "a", START_MS, 4),
        ("g", "a", START_MS + MINUTE, 4 + 3),  # the sum of two partitions, each with its last known value
        ("h", "a", START_MS, 2.0**64),
        ("h", "a", START_MS + MINUTE, 2.0**63),
    ]
    assert module._frame(commits, "timestamp", f.lit(1)) == TimeFrame(START_MS, START_MS + 100 * MINUTE, MINUTE)
    assert module._frame(rates.where("records < 0"), "minute", f.col("records")) is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(300)
def test_what_is_limited(spark: Any) -> None:
    """Every list has more entries than are shown, and the sum of the lags does not fit in 64 bits."""
    from kafkawire.sdk.spark.audit.facts import fact_ddl
    from kafkawire.sdk.spark.audit.summary import summary_of
    from kafkawire.sdk.spark.audit.tables import LOSSES_DDL, PARTITION_FACTS_DDL, TABLES, Tables

    made: dict[str, Any] = {}
    tables = Tables(
        spark.createDataFrame([], f"{fact_ddl()}, run int"),
        made.__getitem__,
        spark.createDataFrame([], PARTITION_FACTS_DDL),
        spark.createDataFrame([], LOSSES_DDL),
    )
    for name in TABLES:
        made[name] = tables.make(name).limit(0)
    rows = [(f"group-{number}", "t", number % 3, max(number - 100, 0)) for number in range(500)]
    rows += [("hostile", "t", number, 2**63 - 1) for number in range(2)] + [("unknown", "u", 0, None)]
    groups = spark.createDataFrame(rows, "`group` string, topic string, partition int, lag bigint")
    made["groups"] = made["groups"].select().unionByName(groups, allowMissingColumns=True)
    numbers = [*range(1, 40_000), 2**49 - 1, 2**49]
    counts = [("t", number, 1 + number % 2) for number in numbers]
    made["key_counts"] = spark.createDataFrame(counts, "topic string, recordsOfKey bigint, keys bigint")
    compressions = [("t", number, "zstd", 1, 10, 100, None) for number in range(300)]
    made["compression"] = spark.createDataFrame(compressions, made["compression"].schema)
    partitions = [("t", number, 100) for number in range(300)]
    partitions = spark.createDataFrame(partitions, "topic string, partition int, sizeBytes bigint")
    made["partitions"] = made["partitions"].select().unionByName(partitions, allowMissingColumns=True)
    found = summary_of(made.__getitem__)
    tables.keys.unpersist()
    assert (found.groups_count, found.groups_behind) == (502, 400)
    assert found.lag == sum(range(400)) + 2 * (2**63 - 1)
    assert len(found.groups) == ROWS_SHOWN + 1
    assert found.groups[0]["group"] == "hostile"
    assert [tuple(row.values()) for row in found.compression] == [("t", "zstd", 300, 3000, 30_000, None)]
    assert len(found.key_counts) < 300
    assert sum(row["keys"] for row in found.key_counts) == sum(keys for _, _, keys in counts)
    assert sum(row["records"] for row in found.key_counts) == sum(number * keys for _, number, keys in counts)
    assert [row["records"] for row in found.key_counts[:31]] == [number * (1 + number % 2) for number in range(1, 32)]
    assert [row["records"] for row in found.key_counts[-2:]] == [2 * (2**49 - 1), 2**49]
    means = [row["records"] / row["keys"] for row in found.key_counts]
    assert means == sorted(means)
