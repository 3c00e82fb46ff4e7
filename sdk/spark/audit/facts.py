"""Facts: the audit records them in one pass over the segments, and builds all tables from them.

There are four kinds. Facts of every kind can be added up or concatenated, so a later run's facts extend earlier ones,
and it does not matter how a run is split into tasks. All kinds share one wide table, because a Spark data source has
only one table; in each row, the columns of other kinds are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import pyarrow

__all__ = ["COLUMNS_OF", "FACTS", "NOTED_RUN", "FactKind", "fact_ddl", "fact_rows", "fact_schema"]


class FactKind(StrEnum):
    """The kind of thing that a row describes."""

    #: A batch, or bytes that are not a valid batch.
    BATCH = "batch"
    #: The records with a key, in a part of a partition.
    KEY = "key"
    #: The records with timestamps in one minute, in a part of a partition.
    MINUTE = "minute"
    #: An offset that a group committed.
    COMMIT = "commit"


#: Every column: its Spark type and its Arrow type.
FACTS: Final = {
    "topic": ("string", pyarrow.string()),
    "partition": ("int", pyarrow.int32()),
    # For a batch. For bytes that are not a batch: the expected offset, position, size, path and reason.
    "baseOffset": ("bigint", pyarrow.int64()),
    "lastOffset": ("bigint", pyarrow.int64()),
    "position": ("bigint", pyarrow.int64()),
    "sizeBytes": ("bigint", pyarrow.int64()),
    "plainBytes": ("bigint", pyarrow.int64()),
    "records": ("bigint", pyarrow.int64()),
    "magic": ("int", pyarrow.int32()),
    "compression": ("string", pyarrow.string()),
    "timestampType": ("int", pyarrow.int32()),
    "minTimestampMs": ("bigint", pyarrow.int64()),
    "maxTimestampMs": ("bigint", pyarrow.int64()),
    "backwards": ("bigint", pyarrow.int64()),
    "producerId": ("bigint", pyarrow.int64()),
    "producerEpoch": ("int", pyarrow.int32()),
    "baseSequence": ("int", pyarrow.int32()),
    "isTransactional": ("boolean", pyarrow.bool_()),
    "isControl": ("boolean", pyarrow.bool_()),
    "controlType": ("string", pyarrow.string()),
    "leaderEpoch": ("int", pyarrow.int32()),
    "isCounted": ("boolean", pyarrow.bool_()),
    "lacksRecords": ("boolean", pyarrow.bool_()),
    "path": ("string", pyarrow.string()),
    "reason": ("string", pyarrow.string()),
    # For bytes after the last batch of a partition: `zeros`, or `cut` for the beginning of a batch.
    "tail": ("string", pyarrow.string()),
    # For a key: the key itself, the total size of the keys and values of its records, and facts about the last record.
    "key": ("binary", pyarrow.binary()),
    "recordBytes": ("bigint", pyarrow.int64()),
    "lastBytes": ("bigint", pyarrow.int64()),
    "lastIsTombstone": ("boolean", pyarrow.bool_()),
    # For a minute: its number, counted from the epoch.
    "minute": ("bigint", pyarrow.int64()),
    # For a commit, in addition to its batch's producer; the offset is null if the commit was deleted.
    "group": ("string", pyarrow.string()),
    "ofTopic": ("string", pyarrow.string()),
    "ofPartition": ("int", pyarrow.int32()),
    "committedOffset": ("bigint", pyarrow.int64()),
    "commitTimestampMs": ("bigint", pyarrow.int64()),
}

_OF_BATCH = tuple(FACTS)[: tuple(FACTS).index("key")]

#: The columns of each kind of row.
COLUMNS_OF: Final = {
    FactKind.BATCH: _OF_BATCH,
    FactKind.KEY: (
        *("topic", "partition", "key", "records", "recordBytes", "lastOffset", "lastBytes", "lastIsTombstone"),
    ),
    FactKind.MINUTE: ("topic", "partition", "minute", "records", "recordBytes"),
    FactKind.COMMIT: (
        *("topic", "partition", "lastOffset", "group", "ofTopic", "ofPartition"),
        *("committedOffset", "commitTimestampMs", "producerId", "isTransactional"),
    ),
}

#: The first column of the wide table; the facts of each kind are written to their own folder.
_KIND = "kind"

#: The last column: the run that recorded the fact, once several runs have been merged.
NOTED_RUN: Final = "notedRun"


def fact_ddl(kind: FactKind | None = None) -> str:
    """Return the columns of a kind, or of the wide table, in Spark's notation."""
    if kind is not None:
        return ", ".join(f"`{name}` {FACTS[name][0]}" for name in COLUMNS_OF[kind])
    return ", ".join([f"{_KIND} string", *(f"`{name}` {ddl}" for name, (ddl, _) in FACTS.items()), f"{NOTED_RUN} int"])


def fact_schema(kind: FactKind | None = None) -> pyarrow.Schema:
    """Return the columns of a kind, or of the wide table, as an Arrow schema."""
    if kind is not None:
        return pyarrow.schema([(name, FACTS[name][1]) for name in COLUMNS_OF[kind]])
    columns = ((name, arrow) for name, (_, arrow) in FACTS.items())
    return pyarrow.schema([(_KIND, pyarrow.string()), *columns, (NOTED_RUN, pyarrow.int32())])


def fact_rows(kind: FactKind, columns: Mapping[str, Iterable[Any]], *, is_wide: bool = True) -> pyarrow.RecordBatch:
    """Return facts in the form in which they are passed to Spark.

    Args:
        kind: the kind of all facts.
        columns: their values, keyed by the names in `COLUMNS_OF`; a missing column is null.
        is_wide: whether to add the columns of the other kinds.
    """
    schema = fact_schema(None if is_wide else kind)
    arrays = {name: _array(values, FACTS[name][1]) for name, values in columns.items()}
    count = len(next(iter(arrays.values())))
    arrays[_KIND] = pyarrow.repeat(pyarrow.scalar(str(kind)), count)
    found = [arrays[field.name] if field.name in arrays else pyarrow.nulls(count, field.type) for field in schema]
    return pyarrow.RecordBatch.from_arrays(found, schema=schema)


def _array(values: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pyarrow.Array):
        return values if values.type == kind else values.cast(kind)
    return pyarrow.array(values, kind)
