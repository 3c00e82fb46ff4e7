"""Tables built from batches show gaps and their causes, duplicates, transactions, lateness and damage.

Method: let Spark build the tables from hand-built facts that are not in log order.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit import log_tables as tables
from kafkawire.sdk.spark.audit.facts import FactKind
from kafkawire.sdk.spark.audit.tables import LOSSES_DDL
from tests.sdk.spark.audit.fact_frames import batch, damage, frame, rows_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def made(spark: Any, table: Any, rows: list[dict[str, Any]], *order: str) -> list[dict[str, Any]]:
    return rows_of(table(frame(spark, FactKind.BATCH, reversed(rows))), *order)


def gaps(spark: Any, facts: list[dict[str, Any]], **cleaned: int) -> list[tuple[Any, ...]]:
    """Return the gaps in some facts, given the offsets up to which topics have been cleaned."""
    columns = "topic string, partition int, cleanedOffset bigint"
    offsets = spark.createDataFrame([(topic, 0, offset) for topic, offset in cleaned.items()], columns)
    rows = made(spark, lambda batches: tables.gaps(batches, offsets), facts, "partition", "startOffset")
    return [tuple(row.values())[1:] for row in rows]


@pytest.mark.smoke
def test_gaps(spark: Any) -> None:
    facts = [
        batch(5),
        batch(15),
        batch(30),
        damage(40, 300),
        batch(50),
        batch(0, partition=1),
        batch(10, 5, lastOffset=19, partition=1),
        batch(40, partition=1),
        damage(None, 7, partition=2),
        batch(9, partition=2),
        batch(0, partition=3),
        damage(10, 900, partition=3, tail="cut"),  # one run found half a batch, and the next found the whole batch
        batch(12, partition=3, run=2),
        damage(100, partition=4),  # only the segment's name is known before it
        damage(100, 50, partition=4),
        batch(130, partition=4),
    ]
    assert gaps(spark, facts, t=24) == [
        (0, 25, 30, 5, "unknown"),
        (0, 40, 50, 10, "damage"),
        (1, 20, 40, 20, "cleaning"),
        (3, 10, 12, 2, "retention"),
        (4, 100, 130, 30, "damage"),
    ]


def test_gaps_between_runs(spark: Any) -> None:
    """A gap between runs is due to retention; a gap within a run, or next to damage or cleaning, is not."""
    facts = [
        batch(0),
        batch(20, run=3),
        batch(35, run=3),
        damage(45, 500, run=3),
        batch(60, run=5),
        batch(0, partition=1),
        batch(20, 5, lastOffset=29, partition=1, run=2),
        batch(9, partition=2, run=4),
    ]
    assert gaps(spark, facts) == [
        (0, 10, 20, 10, "retention"),
        (0, 30, 35, 5, "unknown"),
        (0, 45, 60, 15, "damage"),
        (1, 10, 20, 10, "cleaning"),
    ]


def test_damage_without_a_gap(spark: Any) -> None:
    assert gaps(spark, [batch(0), damage(10, 100), batch(10), batch(20)], t=99) == []


def test_gaps_where_whole_batches_were_cleaned(spark: Any) -> None:
    facts = [batch(0, 1), batch(5, 1), batch(9, 1), damage(10, 100), batch(14, 1), batch(20, 1)]
    assert [(row[1], row[4]) for row in gaps(spark, facts, t=9, u=99)] == [
        (1, "cleaning"),
        (6, "cleaning"),
        (10, "damage"),
        (15, "unknown"),
    ]


@pytest.mark.smoke
def test_duplicates(spark: Any) -> None:
    def sent(offset: int, sequence: int, records: int = 10, epoch: int = 0, **columns: Any) -> dict[str, Any]:
        return batch(offset, records, producerId=7, producerEpoch=epoch, baseSequence=sequence, **columns)

    facts = [
        sent(0, 0),
        sent(10, 10),
        sent(20, 10),
        sent(30, 15),
        sent(40, 25),
        sent(50, 0, epoch=1),
        sent(60, 2**31 - 10, epoch=2),
        sent(70, 0, epoch=2),
        batch(80),
        sent(0, 0, partition=1),
        sent(10, 0, partition=1, isCounted=False),
        # These offsets were committed in transactions; a coordinator starts each of its batches with 0.
        *(sent(offset, 0, 1, topic="__consumer_offsets", isTransactional=True) for offset in range(3)),
        *(sent(offset, 0, 1, topic="__share_group_state") for offset in range(3)),
    ]
    rows = made(spark, tables.duplicates, facts, "partition", "baseOffset")
    assert [(row["partition"], row["baseOffset"], row["followsOffset"], row["records"]) for row in rows] == [
        (0, 20, 19, 10),
        (0, 30, 29, 5),
    ]


LAST = 2**31 - 1  # the last sequence number


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        # Given: base offset, base sequence and records. Found: base offset, offset before it, last sequence, highest
        # used sequence and records.
        ([(0, 0, 10), (10, 10, 10), (20, 0, 10), (30, 10, 10)], [(20, 19, 9, 19, 10), (30, 19, 19, 19, 10)]),
        (
            [(0, 0, 10), (10, 10, 10), (20, 20, 10), (30, 0, 10), (40, 10, 10), (50, 25, 10), (60, 35, 10)],
            [(30, 29, 9, 29, 10), (40, 29, 19, 29, 10), (50, 29, 34, 29, 5)],
        ),
        # A batch in which the numbers wrap is followed by a repetition of its part after the wrap, a repetition of the
        # whole batch, and new records.
        (
            [(0, LAST - 4, 10), (10, 0, 5), (15, LAST - 4, 10), (25, 5, 5)],
            [(10, 9, 4, 4, 5), (15, 14, 4, 4, 10)],
        ),
        # The numbers wrap between two batches, and then earlier batches are repeated.
        (
            [(0, LAST - 9, 10), (10, 0, 10), (20, LAST - 9, 10), (30, 0, 12)],
            [(20, 19, LAST, 9, 10), (30, 19, 11, 9, 10)],
        ),
        # Other runs did not see the records between them or the wrap.
        ([(0, 5, 10), (2**31, LAST - 9, 10), (2**31 + 10, 0, 10)], []),
    ],
)
def test_sequences(spark: Any, batches: list[tuple[int, int, int]], expected: list[tuple[int, ...]]) -> None:
    facts = [
        batch(offset, records, producerId=7, producerEpoch=0, baseSequence=sequence)
        for offset, sequence, records in batches
    ]
    rows = made(spark, tables.duplicates, facts, "baseOffset")
    names = ("baseOffset", "followsOffset", "lastSequence", "sequenceBefore", "records")
    assert [tuple(row[name] for name in names) for row in rows] == expected


def test_transactions(spark: Any) -> None:
    def sent(offset: int, **columns: Any) -> dict[str, Any]:
        return batch(offset, producerId=7, producerEpoch=1, isTransactional=True, **columns)

    def end(offset: int, kind: str | None) -> dict[str, Any]:
        marker = {"records": 1, "lastOffset": offset, "isControl": True, "controlType": kind, "producerEpoch": 2}
        return sent(offset) | marker | {"maxTimestampMs": 9000}

    facts = [
        sent(0, maxTimestampMs=1000),
        sent(10),
        end(20, "ABORT"),
        end(21, "COMMIT"),
        sent(22),
        end(32, "COMMIT"),
        sent(33),
        batch(43),
        sent(53) | {"producerId": 8},
        end(63, None) | {"producerId": 8},
    ]
    rows = made(spark, tables.transactions, facts, "firstOffset")
    names = ("producerId", "firstOffset", "lastOffset", "outcome", "records")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (7, 0, 20, "ABORT", 20),
        (7, 22, 32, "COMMIT", 10),
        (7, 33, 42, "OPEN", 10),
        (8, 53, 63, "OPEN", 10),
    ]
    assert rows[0]["sizeBytes"] == 200
    assert [row["producerEpoch"] for row in rows] == [2, 2, 1, 2]


def test_lateness(spark: Any) -> None:
    def at(offset: int, low: int, high: int, **columns: Any) -> dict[str, Any]:
        return batch(offset, minTimestampMs=low, maxTimestampMs=high, **columns)

    facts = [
        at(0, 0, 100_000),
        at(10, 100_000, 100_000),
        at(20, 99_500, 101_000, backwards=3),
        at(30, 20_000, 21_000),
        at(40, -1, -1),
        at(50, 101_000, 2**62),
        at(60, 0, 0, isControl=True),
    ]
    rows = made(spark, tables.lateness, facts, "lateMs")
    assert [(row["lateMs"], row["batches"], row["maxLateMs"], row["backwards"]) for row in rows] == [
        (None, 2, 0, 0),
        (1, 1, 500, 3),
        (60_000, 1, 81_000, 0),
    ]


def test_lateness_at_its_bounds(spark: Any) -> None:
    """A bound belongs to the row that begins with it; a record that is as old as the newest record is on time."""
    late_ms = [late for bound in tables.LATE_MS for late in (bound - 1, bound)]
    newest = tables.LATE_MS[-1]
    facts = [batch(0, minTimestampMs=newest, maxTimestampMs=newest)]
    facts += [
        batch(10 * number, minTimestampMs=newest - late, maxTimestampMs=newest)
        for number, late in enumerate(late_ms, 1)
    ]
    rows = made(spark, tables.lateness, facts, "lateMs")
    highest = [0, *(bound - 1 for bound in tables.LATE_MS[1:]), newest]
    assert [(row["lateMs"], row["batches"], row["maxLateMs"]) for row in rows] == [
        (None, 2, 0),
        *((bound, 2, most) for bound, most in zip(tables.LATE_MS[:-1], highest[1:], strict=False)),
        (newest, 1, newest),
    ]


def test_compression(spark: Any) -> None:
    facts = [
        batch(0),
        batch(10),
        batch(20, compression="none", plainBytes=None),
        batch(30, isCounted=False),
        batch(40, isControl=True),
        damage(50),
    ]
    rows = made(spark, tables.compression, facts, "compression")
    assert [tuple(row.values())[2:] for row in rows] == [("none", 1, 10, 100, None), ("zstd", 2, 20, 200, 600)]


def test_rates(spark: Any) -> None:
    facts = [
        {"topic": "t", "partition": 0, "minute": minute, "records": 2, "recordBytes": 9}
        for minute in (28_333_333, 28_333_333, 2**60, -(2**63) // 60_000, None)
    ]
    rows = rows_of(
        tables.rates(frame(spark, FactKind.MINUTE, facts)).selectExpr("unix_millis(minute) ms", "records"), "ms"
    )
    assert [tuple(row.values()) for row in rows] == [(None, 6), (28_333_333 * 60_000, 4)]


def test_damage_that_is_mended(spark: Any) -> None:
    """A broker cuts off an incompletely written batch, but damage between batches stays."""
    facts = [
        batch(0),
        damage(10, 100),
        damage(10, 170),
        batch(10, run=2),
        damage(20, 300, run=2),
        batch(20, run=2),
        batch(40, run=3),
        damage(5, 7, partition=1),
        batch(5, partition=1),
        batch(0, partition=2),
        damage(10, 100, partition=2, path="/old/a.log"),
        damage(10, 100, partition=2, path="/new/a.log", sizeBytes=70, run=2),
        batch(13, partition=2, run=2),
        batch(0, partition=3),
        damage(10, 400, partition=3, tail="cut"),
        batch(30, partition=3, run=2),  # retention removed the rest first
        damage(40, 900, partition=3, tail="zeros", run=2),
    ]
    rows = made(spark, tables.corrupt, facts, "partition")
    assert [(row["partition"], row["expectedOffset"], row["position"], row["path"]) for row in rows] == [
        (0, 20, 300, "a.log"),
        (1, 5, 7, "a.log"),
        (2, 10, 100, "/new/a.log"),
        (3, 40, 900, "a.log"),
    ]


def test_losses(spark: Any) -> None:
    """Losses are those that the files show, and gaps that neither compaction nor retention explains."""
    noted = [("t", 1, 50, 90, 40, "end", "replication-offset-checkpoint")]
    found = [
        {"topic": "t", "partition": 0, "startOffset": start, "endOffset": start + 3, "offsets": 3, "cause": cause}
        for start, cause in ((0, "unknown"), (10, "cleaning"), (20, "damage"), (30, "retention"))
    ]
    frames = spark.createDataFrame(found), spark.createDataFrame(noted, LOSSES_DDL)
    rows = rows_of(tables.losses(*frames), "partition", "startOffset")
    assert [tuple(row.values()) for row in rows] == [
        ("t", 0, 0, 3, 3, "gap", ""),
        ("t", 0, 20, 23, 3, "damage", ""),
        *noted,
    ]


def test_damage_that_every_run_meets(spark: Any) -> None:
    facts = [damage(10, 100, run=1), damage(10, 100, sizeBytes=70, run=2), damage(30, 500), batch(0)]
    rows = made(spark, tables.corrupt, facts, "position")
    assert [(row["position"], row["sizeBytes"], row["expectedOffset"], row["reason"]) for row in rows] == [
        (100, 70, 10, "checksum"),
        (500, 50, 30, "checksum"),
    ]
