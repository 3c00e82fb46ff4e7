"""Handmade facts as DataFrames, for tests of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkawire.sdk.spark.audit.facts import COLUMNS_OF, FactKind, fact_ddl

#: A batch of ten records, with nothing to report.
PLAIN = {
    "topic": "t",
    "partition": 0,
    "records": 10,
    "sizeBytes": 100,
    "plainBytes": 300,
    "compression": "zstd",
    "minTimestampMs": 0,
    "maxTimestampMs": 0,
    "backwards": 0,
    "producerId": -1,
    "producerEpoch": -1,
    "baseSequence": -1,
    "isTransactional": False,
    "isControl": False,
    "isCounted": True,
    "path": "a.log",
    "run": 1,
}


def batch(base_offset: int, records: int = 10, **columns: Any) -> dict[str, Any]:
    """Return the facts about a batch."""
    last = base_offset + records - 1
    found = {**PLAIN, "baseOffset": base_offset, "lastOffset": last, "records": records, **columns}
    return {"lacksRecords": found["lastOffset"] - base_offset >= found["records"], **found}


def damage(expected_offset: int | None, position: int = 0, **columns: Any) -> dict[str, Any]:
    """Return the facts about bytes that are not a valid batch."""
    place = {"topic": "t", "partition": 0, "path": "a.log", "position": position, "sizeBytes": 50, "run": 1}
    return {**place, "baseOffset": expected_offset, "reason": "checksum", **columns}


def frame(spark: Any, kind: FactKind, rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return facts of one kind; omitted columns are null."""
    names = (*COLUMNS_OF[kind], "run")
    values = [tuple({"run": 1, **row}.get(name) for name in names) for row in rows]
    return spark.createDataFrame(values, f"{fact_ddl(kind)}, run int")


def rows_of(table: Any, *order: str) -> list[dict[str, Any]]:
    """Return the rows of a table, sorted."""
    return [row.asDict() for row in table.orderBy(*order).collect()]
