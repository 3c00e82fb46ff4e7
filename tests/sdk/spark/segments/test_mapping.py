"""A user's function gets the Arrow batches of a task, and what it returns has the types that Spark expects."""

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


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            pyarrow.RecordBatch.from_pydict({"s": ["x"], "n": [1]}),
            "map_batches='s, n': the schema has the",
        ),
        (pyarrow.RecordBatch.from_pydict({"n": ["x"], "s": ["x"]}), "it does not fit the schema"),
        (pyarrow.RecordBatch.from_pydict({"n": [2**40], "s": ["x"]}), "it does not fit the schema"),
        (pyarrow.table({"n": [1], "s": ["x"]}), "map_batches='Table': it has to return a pyarrow.RecordBatch or None"),
    ],
)
def test_refused(result: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        list(mapped(lambda batch: result, SCHEMA)([rows(1)]))
    assert reason in str(caught.value)
