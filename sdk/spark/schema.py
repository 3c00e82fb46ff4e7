"""The columns of decoded records: those of Spark's Kafka connector, and more where they are asked for.

One table says for each its name, its type in Spark's words and in Arrow's. Every column may be null, as in the
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
        ddl: the type as Spark is told it. `timestamp` by itself would be what `spark.sql.timestampType` says, and names
            may be reserved (`spark.sql.ansi.enforceReservedKeywords`).
        arrow: the type in Arrow's words.
        about: what it holds.
    """

    ddl: str
    arrow: pyarrow.DataType
    about: str


_HEADER = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
_CORRUPT = pyarrow.struct(
    [("path", pyarrow.string()), ("position", pyarrow.int64()), ("size", pyarrow.int64()), ("reason", pyarrow.string())]
)

#: Of bytes that are not records, in the mode PERMISSIVE: where they are in the file or value, and why. Topic and
#: partition are there, everything else of such a row is null.
CORRUPT: Final = "_corrupt"

#: In the connector's option of this name, or asked for as a column.
HEADERS: Final = "headers"

#: Every column by its name.
COLUMNS: Final = {
    "key": Column("binary", pyarrow.binary(), "of the record"),
    "value": Column("binary", pyarrow.binary(), "of the record"),
    "topic": Column("string", pyarrow.string(), "null if it is not known"),
    "partition": Column("int", pyarrow.int32(), "null if it is not known"),
    "offset": Column("bigint", pyarrow.int64(), "of the record"),
    "timestamp": Column(
        "timestamp_ltz", pyarrow.timestamp("us", "UTC"), "in microseconds, of which Kafka has thousands"
    ),
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

#: What Spark's connector has, in its order.
CONNECTOR: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

#: What the connector does not have.
EXTRAS: Final = tuple(name for name in COLUMNS if name not in (*CONNECTOR, HEADERS, CORRUPT))

#: What only a file has.
OF_FILES: Final = ("batchPosition", "path")


def chosen(*, headers: bool = False, extra: Iterable[str] = (), corrupt: bool = False) -> tuple[str, ...]:
    """Return the names of the columns that somebody gets.

    Args:
        headers: whether there are headers.
        extra: names of `EXTRAS`.
        corrupt: whether there is a column for damage.

    Raises:
        ConfigurationError: there is no such extra column.
    """
    names = list(extra)
    if unknown := [name for name in names if name not in EXTRAS]:
        raise ConfigurationError("extra", ", ".join(unknown), f"there are {', '.join(EXTRAS)}")
    more = [name for name in EXTRAS if name in names]
    return (*CONNECTOR, *([HEADERS] if headers else []), *more, *([CORRUPT] if corrupt else []))


def ddl(names: Sequence[str]) -> str:
    """Return columns as Spark declares them."""
    return ", ".join(f"`{name}` {COLUMNS[name].ddl}" for name in names)


def arrow_schema(names: Sequence[str]) -> pyarrow.Schema:
    """Return columns as Arrow declares them."""
    return pyarrow.schema([(name, COLUMNS[name].arrow) for name in names])


def checked(fields: Iterable[tuple[str, str, bool]], offered: Sequence[str] = tuple(COLUMNS)) -> tuple[str, ...]:
    """Return the names of the columns that a schema asks for.

    Args:
        fields: for each column the name, the type in Spark's words, and whether it may be null.
        offered: what an error names for a column that does not exist.

    Raises:
        ConfigurationError: there is no such column, or it has another type, or none is asked for.
    """
    names: list[str] = []
    for name, kind, is_nullable in fields:
        if name not in COLUMNS:
            hint = did_you_mean(name, offered, likeness=0.4) or f"; there are {', '.join(offered)}"
            raise ConfigurationError("schema", f"{name} {kind}", f"no such column{hint}")
        expected = COLUMNS[name].ddl.replace("`", "")
        if kind.replace(" ", "").lower() != _shown(expected).replace(" ", ""):
            raise ConfigurationError("schema", f"{name} {kind}", f"the column is {expected}; cast it in the query")
        if not is_nullable:
            raise ConfigurationError("schema", f"{name} {kind} NOT NULL", "every column may be null")
        if name in names:
            raise ConfigurationError("schema", f"{name} {kind}", "the column is there already")
        names.append(name)
    if not names:
        raise ConfigurationError("schema", "", "expected a column; to count rows, name a small one, such as partition")
    return tuple(names)


def _shown(declared: str) -> str:
    """Return a type as Spark shows it, from what it is declared as."""
    return declared.replace("timestamp_ltz", "timestamp")


def names_of(schema: StructType, offered: Sequence[str] = tuple(COLUMNS)) -> tuple[str, ...]:
    """Return the names of the columns that a schema of Spark asks for.

    Args:
        schema: what somebody has given.
        offered: see `checked`.

    Raises:
        ConfigurationError: see `checked`.
    """
    return checked(((field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields), offered)
