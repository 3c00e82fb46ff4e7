"""The columns of decoded records: those of Spark's Kafka connector, and further ones on request.

A single table lists the name, the Spark type and the Arrow type of each column. Every column may be null, as in the
connector's schema.

Source: `KafkaRecordToRowConverter` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.near_names import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "COLUMNS",
    "CONNECTOR",
    "CORRUPT",
    "EXTRAS",
    "HEADERS",
    "OF_FILES",
    "Column",
    "arrow_schema",
    "checked",
    "chosen",
    "ddl",
    "names_of",
]


class Column(NamedTuple):
    """A column.

    Attributes:
        ddl: the type in Spark's DDL. A plain `timestamp` would depend on `spark.sql.timestampType`, and names may be
            reserved (`spark.sql.ansi.enforceReservedKeywords`).
        arrow: the Arrow type.
        about: its content.
    """

    ddl: str
    arrow: pyarrow.DataType
    about: str


_HEADER = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
_CORRUPT = pyarrow.struct(
    [("path", pyarrow.string()), ("position", pyarrow.int64()), ("size", pyarrow.int64()), ("reason", pyarrow.string())]
)

#: The column for bytes that are not records, in the mode PERMISSIVE: their position in the file or value, and the
#: reason. In such a row, topic and partition are set, and everything else is null.
CORRUPT: Final = "_corrupt"

#: Included if the connector's option of this name is set, or if requested as a column.
HEADERS: Final = "headers"

#: Every column, keyed by name.
COLUMNS: Final = {
    "key": Column("binary", pyarrow.binary(), "of the record"),
    "value": Column("binary", pyarrow.binary(), "of the record"),
    "topic": Column("string", pyarrow.string(), "null if unknown"),
    "partition": Column("int", pyarrow.int32(), "null if unknown"),
    "offset": Column("bigint", pyarrow.int64(), "of the record"),
    "timestamp": Column("timestamp_ltz", pyarrow.timestamp("us", "UTC"), "in microseconds, in steps of a millisecond"),
    "timestampType": Column("int", pyarrow.int32(), "0 for create time, 1 for log append time, -1 for none (magic 0)"),
    HEADERS: Column("array<struct<`key`: string, `value`: binary>>", pyarrow.list_(_HEADER), "null if there are none"),
    "leaderEpoch": Column("int", pyarrow.int32(), "of the batch; -1 before magic 2"),
    "producerId": Column("bigint", pyarrow.int64(), "of the batch; -1 for producers that are not idempotent"),
    "producerEpoch": Column("int", pyarrow.int32(), "likewise"),
    "sequence": Column("int", pyarrow.int32(), "of the record; -1 for producers that are not idempotent"),
    "isTransactional": Column("boolean", pyarrow.bool_(), "whether the record was written in a transaction"),
    "compression": Column("string", pyarrow.string(), "of the batch: none, gzip, snappy, lz4 or zstd"),
    "batchOffset": Column("bigint", pyarrow.int64(), "the first offset of the batch; null before magic 2"),
    "batchPosition": Column(
        "bigint", pyarrow.int64(), "where the batch begins in its file or value; null from brokers"
    ),
    "path": Column("string", pyarrow.string(), "of the file; null if the bytes come from a column or a broker"),
    CORRUPT: Column(
        "struct<`path`: string, `position`: bigint, `size`: bigint, `reason`: string>", _CORRUPT, "see CORRUPT"
    ),
}

#: The columns of Spark's connector, in its order.
CONNECTOR: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

#: Columns that the connector does not have.
EXTRAS: Final = tuple(name for name in COLUMNS if name not in (*CONNECTOR, HEADERS, CORRUPT))

#: Columns that only files have.
OF_FILES: Final = ("batchPosition", "path")


def chosen(*, headers: bool = False, extra: Iterable[str] = (), corrupt: bool = False) -> tuple[str, ...]:
    """Return the column names of a result.

    Args:
        headers: whether to include headers.
        extra: names of `EXTRAS`.
        corrupt: whether to include a column for damage.

    Raises:
        ConfigurationError: there is no such extra column.
    """
    names = list(extra)
    if unknown := [name for name in names if name not in EXTRAS]:
        raise ConfigurationError("extra", ", ".join(unknown), f"available columns: {', '.join(EXTRAS)}")
    more = [name for name in EXTRAS if name in names]
    return (*CONNECTOR, *([HEADERS] if headers else []), *more, *([CORRUPT] if corrupt else []))


def ddl(names: Sequence[str]) -> str:
    """Return columns in Spark's notation."""
    return ", ".join(f"`{name}` {COLUMNS[name].ddl}" for name in names)


def arrow_schema(names: Sequence[str]) -> pyarrow.Schema:
    """Return columns as an Arrow schema."""
    return pyarrow.schema([(name, COLUMNS[name].arrow) for name in names])


def checked(fields: Iterable[tuple[str, str, bool]], offered: Sequence[str] = tuple(COLUMNS)) -> tuple[str, ...]:
    """Return the column names in a schema.

    Args:
        fields: for each column, its name, its Spark type, and whether it may be null.
        offered: the columns to list in an error about an unknown column.

    Raises:
        ConfigurationError: there is no such column, it has a different type, or the schema is empty.
    """
    names: list[str] = []
    for name, kind, is_nullable in fields:
        if name not in COLUMNS:
            hint = did_you_mean(name, offered, likeness=0.4) or f"; available columns: {', '.join(offered)}"
            raise ConfigurationError("schema", f"{name} {kind}", f"no such column{hint}")
        expected = COLUMNS[name].ddl.replace("`", "")
        if kind.replace(" ", "").lower() != _shown(expected).replace(" ", ""):
            raise ConfigurationError("schema", f"{name} {kind}", f"the column is {expected}; cast it in the query")
        if not is_nullable:
            raise ConfigurationError("schema", f"{name} {kind} NOT NULL", "no column may be declared NOT NULL")
        if name in names:
            raise ConfigurationError("schema", f"{name} {kind}", "the column is repeated")
        names.append(name)
    if not names:
        raise ConfigurationError(
            "schema", "", "expected at least one column; to count rows, select a small one, such as partition"
        )
    return tuple(names)


def _shown(declared: str) -> str:
    """Return a declared type as Spark displays it."""
    return declared.replace("timestamp_ltz", "timestamp")


def names_of(schema: StructType, offered: Sequence[str] = tuple(COLUMNS)) -> tuple[str, ...]:
    """Return the column names in a Spark schema.

    Args:
        schema: the user's schema.
        offered: see `checked`.

    Raises:
        ConfigurationError: see `checked`.
    """
    return checked(((field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields), offered)
