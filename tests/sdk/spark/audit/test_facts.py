"""Facts of every kind share one wide table, in which the columns for other kinds are null."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

import pyarrow

from kafkawire.sdk.spark.audit.facts import COLUMNS_OF, FACTS, FactKind, fact_ddl, fact_rows, fact_schema


@pytest.mark.parametrize("kind", FactKind)
def test_every_kind_is_in_the_wide_table(kind: FactKind) -> None:
    assert set(COLUMNS_OF[kind]) <= set(FACTS)
    columns = {name: [None] for name in COLUMNS_OF[kind]}
    wide = fact_rows(kind, columns)
    assert wide.schema == fact_schema()
    assert [name for name, value in wide.to_pylist()[0].items() if value is not None] == ["kind"]
    assert wide["kind"].to_pylist() == [str(kind)]
    narrow = fact_rows(kind, columns, is_wide=False)
    assert tuple(narrow.schema.names) == COLUMNS_OF[kind]


def test_every_column_is_of_some_kind() -> None:
    assert {name for names in COLUMNS_OF.values() for name in names} == set(FACTS)


def test_columns_that_are_missing_or_of_another_type() -> None:
    chunks = pyarrow.chunked_array([pyarrow.array([1], pyarrow.int32()), pyarrow.array([2], pyarrow.int32())])
    (first, second) = fact_rows(FactKind.MINUTE, {"minute": chunks, "topic": ["a", None]}).to_pylist()
    assert (first["minute"], first["topic"], first["records"]) == (1, "a", None)
    assert (second["minute"], second["topic"]) == (2, None)


def test_types_as_spark_declares_them() -> None:
    assert fact_ddl(FactKind.MINUTE) == (
        "`topic` string, `partition` int, `minute` bigint, `records` bigint, `recordBytes` bigint"
    )
    assert fact_ddl().startswith("kind string, `topic` string")
