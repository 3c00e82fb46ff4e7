"""The columns are the connector's, with other columns only on request; Spark's and Arrow's types agree.

Method: check the table, every choice of columns, and Spark's own conversion of its types to Arrow's.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.schema import (
    COLUMNS,
    CONNECTOR,
    CORRUPT,
    EXTRAS,
    HEADERS,
    arrow_schema,
    checked,
    chosen,
    ddl,
)


def test_columns_that_are_chosen() -> None:
    assert chosen() == CONNECTOR == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert chosen(headers=True, corrupt=True) == (*CONNECTOR, "headers", "_corrupt")
    assert chosen(extra=["sequence", "producerId"]) == (*CONNECTOR, "producerId", "sequence")  # in a fixed order
    assert (*CONNECTOR, HEADERS, *EXTRAS, CORRUPT) == tuple(COLUMNS)
    with pytest.raises(ConfigurationError, match=r"extra='epoch, headers'.*available columns: leaderEpoch"):
        chosen(extra=["epoch", "path", "headers"])


def test_declarations() -> None:
    assert ddl(["offset", "key"]) == "`offset` bigint, `key` binary"
    assert ddl([HEADERS, CORRUPT]) == (
        "`headers` array<struct<`key`: string, `value`: binary>>, "
        "`_corrupt` struct<`path`: string, `position`: bigint, `size`: bigint, `reason`: string>"
    )


def test_types_of_a_users_schema() -> None:
    """Types are compared in the form in which Spark prints them, which may differ from the declaration."""
    assert checked([("timestamp", "timestamp", True), (HEADERS, "array<struct<key:string,value:binary>>", True)]) == (
        "timestamp",
        "headers",
    )
    with pytest.raises(ConfigurationError, match="schema='timestamp timestamp_ntz': the column is timestamp_ltz"):
        checked([("timestamp", "timestamp_ntz", True)])
    with pytest.raises(ConfigurationError, match="the column is array<struct<key: string, value: binary>>"):
        checked([(HEADERS, "array<string>", True)])


def test_schema_without_columns() -> None:
    """Arrow batches without columns have no rows, so a count would find nothing."""
    with pytest.raises(ConfigurationError, match="schema='': expected at least one column"):
        checked([])


def test_types_of_spark_and_arrow_agree() -> None:
    types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed: the extra `spark` brings it")
    from pyspark.sql.pandas.types import to_arrow_schema

    simple = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp_ltz": types.TimestampType(),
        "boolean": types.BooleanType(),
    }
    header = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
    corrupt = types.StructType().add("path", types.StringType()).add("position", types.LongType())
    corrupt = corrupt.add("size", types.LongType()).add("reason", types.StringType())
    for name, column in COLUMNS.items():
        kind = simple.get(column.ddl) or (types.ArrayType(header) if name == HEADERS else corrupt)
        assert to_arrow_schema(types.StructType().add(name, kind), timezone="UTC") == arrow_schema([name])
