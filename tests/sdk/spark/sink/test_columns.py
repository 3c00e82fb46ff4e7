"""Columns are those of Spark's connector, checked when a query is planned, and rows keep their order within a topic."""

from __future__ import annotations

import random

import pytest

from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow
from pyspark.sql import types

from kafkawire.sdk.spark.sink.columns import WrittenColumns, by_topic, checked_columns

HEADERS = "array<struct<key:string,value:binary>>"


def checked(*columns: str, topic: str | None = "out") -> WrittenColumns:
    fields = [types.StructField(name, KINDS[kind]) for name, _, kind in (each.partition(" ") for each in columns)]
    return checked_columns(types.StructType(fields), topic)


def header(value: types.DataType) -> types.DataType:
    fields = [types.StructField("key", types.StringType()), types.StructField("value", value)]
    return types.ArrayType(types.StructType(fields))


KINDS = {
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "void": types.NullType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "collated": types.StringType("UNICODE_CI"),
    "headers": header(types.BinaryType()),
    "texts": header(types.StringType()),
}


def test_taken() -> None:
    assert checked("value string") == WrittenColumns(None, None, None)
    assert checked("value binary", "key string", "headers headers", "partition int", "other bigint") == WrittenColumns(
        "key", "headers", "partition"
    )
    assert checked("topic string", "value collated", topic=None) == WrittenColumns(None, None, None)


@pytest.mark.parametrize("kind", ["void", "binary"])
def test_a_column_topic_that_the_option_overrides(kind: str) -> None:
    """As in the connector, the topic column may have any type; without the topic option, it has to be text."""
    assert checked("value string", f"topic {kind}") == WrittenColumns(None, None, None)
    with pytest.raises(ConfigurationError, match=f"schema='topic {kind}': expected string"):
        checked("value string", f"topic {kind}", topic=None)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (["value int"], "schema='value int': expected string or binary"),
        (["value string", "key bigint"], "schema='key bigint': expected string or binary"),
        (["value string", "partition bigint"], "schema='partition bigint': expected int"),
        (["value string", "headers texts"], f"value:string>>': expected {HEADERS}"),
        (["key string"], "schema='key': a column `value` of type string or binary is required"),
        ([], "schema='none': a column `value` of type string or binary is required"),
    ],
)
def test_refused(columns: list[str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked(*columns)
    assert reason in str(caught.value)


def test_a_topic_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="a column `topic` or the option topic is required"):
        checked("value string", topic=None)


@pytest.mark.parametrize("names", ["a", "abc", ""])
def test_rows_by_topic(names: str) -> None:
    chance = random.Random(7)
    topics = [chance.choice(names) for _ in range(1_000 if names else 0)]
    rows = pyarrow.RecordBatch.from_pydict(
        {"topic": pyarrow.array(topics, pyarrow.string()), "value": list(range(len(topics)))}
    )
    found = {name: part.column("value").to_pylist() for name, part in by_topic(rows, None)}
    assert found == {name: [row for row, topic in enumerate(topics) if topic == name] for name in names}
    assert [*by_topic(rows, "out")] == [("out", rows)]


def test_a_row_without_topic() -> None:
    rows = pyarrow.RecordBatch.from_pydict({"topic": ["a", None], "value": ["v", "w"]})
    with pytest.raises(LocalProtocolError, match="column `topic`: null in 1 of 2 rows"):
        list(by_topic(rows, None))
