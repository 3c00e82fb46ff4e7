"""A user's function receives a task's Arrow batches, and its results have the types that Spark expects."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError

pyarrow = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.segments.mapping import mapped  # noqa: E402 - it needs pyspark

SCHEMA = types.StructType().add("n", "integer").add("s", "string")


def rows(*numbers: int) -> Any:
    return pyarrow.RecordBatch.from_pydict(
        {"n": pyarrow.array(numbers, pyarrow.int32()), "s": [str(n) for n in numbers]}
    )


def test_rows() -> None:
    def even(batch: Any) -> Any:
        return batch.filter(pyarrow.array([n % 2 == 0 for n in batch.column("n").to_pylist()]))

    found = list(mapped(even, SCHEMA)([rows(1, 2), rows(3), rows(4)]))
    assert [batch.to_pydict() for batch in found] == [{"n": [2], "s": ["2"]}, {"n": [4], "s": ["4"]}]
    assert list(mapped(lambda batch: None, SCHEMA)([rows(1)])) == []


def test_types() -> None:
    def wide(batch: Any) -> Any:
        return pyarrow.RecordBatch.from_pydict({"n": [7], "s": pyarrow.array(["x"], pyarrow.large_string())})

    (found,) = mapped(wide, SCHEMA)([rows(1)])
    assert found.schema.types == [pyarrow.int32(), pyarrow.string()]


def test_tables() -> None:
    table = pyarrow.Table.from_batches([rows(1), rows(2, 3)])
    found = list(mapped(lambda batch: table, SCHEMA)([rows(7)]))
    assert [batch.column("n").to_pylist() for batch in found] == [[1], [2, 3]]
    assert list(mapped(lambda batch: table[:0], SCHEMA)([rows(7)])) == []


KINDS = "must return a pyarrow.RecordBatch, a Table or None"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            pyarrow.RecordBatch.from_pydict({"s": ["x"], "n": [1]}),
            "map_batches='s, n': the schema has the",
        ),
        (pyarrow.RecordBatch.from_pydict({"n": ["x"], "s": ["x"]}), "the columns do not fit the schema"),
        (pyarrow.RecordBatch.from_pydict({"n": [2**40], "s": ["x"]}), "the columns do not fit the schema"),
        (pyarrow.table({"s": ["x"], "n": [1]}), "map_batches='s, n': the schema has the"),
        ([], f"map_batches='list': {KINDS}"),
        (0, f"map_batches='int': {KINDS}"),
        ((each for each in ()), f"map_batches='generator': {KINDS}"),
        (pyarrow.array([1]), f"map_batches='pyarrow.lib.Int64Array': {KINDS}"),
    ],
)
def test_refused(result: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        list(mapped(lambda batch: result, SCHEMA)([rows(1)]))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            types.StructType().add("n", "long", nullable=False),
            "schema='n bigint NOT NULL': no column may be declared NOT NULL",
        ),
        (
            types.StructType().add("a", types.ArrayType(types.StructType().add("n", "long", nullable=False))),
            "schema='n bigint NOT NULL'",
        ),
        (
            types.StructType().add("m", types.MapType(types.StringType(), types.StructType().add("n", "long", False))),
            "schema='n bigint NOT NULL'",
        ),
        (SCHEMA.__class__([*SCHEMA.fields, SCHEMA.fields[0]]), "schema='n, s, n': the column n is repeated"),
    ],
)
def test_refused_schema(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        mapped(lambda batch: batch, schema)
    assert str(caught.value).startswith(reason)
