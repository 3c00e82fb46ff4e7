"""Each row gets an extra header with a unique value, and keeps its own headers."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow

from kafkawire.sdk.spark import schema
from kafkawire.sdk.spark.sink.row_ids import ROW_ID, with_row_ids
from kafkawire.sdk.spark.sink.task import WriteTask

HEADERS = schema.COLUMNS["headers"].arrow
TASK = WriteTask("query", 3, 1)


def rows(headers: Any = None) -> Any:
    columns = {"value": ["a", "b", "c"]}
    if headers is not None:
        columns["headers"] = pyarrow.array(headers, HEADERS)
    return pyarrow.RecordBatch.from_pydict(columns)


def added(found: Any) -> list[list[tuple[str, bytes]]]:
    found.validate(full=True)
    return [[(each["key"], each["value"]) for each in row] for row in found.column("headers").to_pylist()]


def ids(*numbers: int) -> list[tuple[str, bytes]]:
    return [(ROW_ID, b"query/3/1/%d" % number) for number in numbers]


def test_without_headers() -> None:
    assert added(with_row_ids(rows(), TASK, 10)) == [[each] for each in ids(10, 11, 12)]


def test_after_the_headers_that_are_there() -> None:
    own = [{"key": "k", "value": b"v"}, {"key": "null", "value": None}]
    given = rows([own, None, []])
    first, second, third = ids(0, 1, 2)
    assert added(with_row_ids(given, TASK, 0)) == [[("k", b"v"), ("null", None), first], [second], [third]]
    assert added(with_row_ids(given.slice(1), TASK, 1)) == [[second], [third]]
    assert added(with_row_ids(given.slice(0, 0), TASK, 0)) == []


def test_of_a_query_that_is_no_stream() -> None:
    found = added(with_row_ids(rows(), WriteTask("query", -1, 0), 0))
    assert found[0] == [(ROW_ID, b"query//0/0")]
