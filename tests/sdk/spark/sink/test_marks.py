"""Marks are stored in a group's offsets and read back; fingerprints ignore order, but almost no other change."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow

from kafkawire import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.spark.sink.marks import Fingerprint, Mark
from kafkawire.sdk.spark.sink.task import WriteTask

TASK = WriteTask("query", 3, 1)


def test_there_and_back() -> None:
    mark = Mark("query", 3, Fingerprint(2, 2**63))
    offsets = mark.offsets("t")
    assert offsets == {TopicPartition("t", 0): OffsetAndMetadata(3, f"query 2 {2**63}")}
    assert Mark.last(offsets, TASK) == mark


def test_the_last_one_of_the_query_counts() -> None:
    offsets = {
        TopicPartition("a", 0): OffsetAndMetadata(5, "query 1"),
        TopicPartition("b", 0): OffsetAndMetadata(6, "query 2"),
        TopicPartition("c", 0): OffsetAndMetadata(4, "query 3"),
        TopicPartition("d", 0): OffsetAndMetadata(9, "other 4"),
        TopicPartition("e", 0): OffsetAndMetadata(9),
    }
    assert Mark.last(offsets, TASK) == Mark("query", 6, (2,))
    assert Mark.last(offsets, TASK._replace(query_id="third")) is None
    assert Mark.last({}, TASK) is None


def fingerprint(values: list[Any], keys: list[Any] | None = None, kind: Any = None) -> Fingerprint:
    columns = {"value": pyarrow.array(values, kind or pyarrow.binary())}
    if keys is not None:
        columns["key"] = pyarrow.array(keys, pyarrow.string())
    batch = pyarrow.RecordBatch.from_pydict(columns)
    return Fingerprint().with_rows(batch, tuple(columns))


def test_fingerprint() -> None:
    found = fingerprint([b"ab", None, b""], ["c", None, "d"])
    assert found.rows == 3
    assert 0 < found.total < 2**64
    assert fingerprint([None, b"", b"ab"], [None, "d", "c"]) == found
    assert fingerprint([]) == Fingerprint()
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.large_binary()):
        assert fingerprint(["ab", None], kind=kind) == fingerprint([b"ab", None])


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ([b"ac", None, b""], ["c", None, "d"]),
        ([b"ba", None, b""], ["c", None, "d"]),
        ([b"ab", b"", b""], ["c", None, "d"]),
        ([b"ab", None, b""], ["c", "", "d"]),
        ([b"c", None, b""], ["ab", None, "d"]),
        # The values and keys are the same, but are combined differently.
        ([b"ab", None, b""], ["d", None, "c"]),
        ([b"a", b"b", None, b""], ["c", None, None, "d"]),
    ],
)
def test_other_rows(values: list[Any], keys: list[Any]) -> None:
    assert fingerprint(values, keys).total != fingerprint([b"ab", None, b""], ["c", None, "d"]).total


def test_rows_that_were_dealt_to_tasks_otherwise() -> None:
    """The rows have equal sizes and similar byte sums, like ids."""
    rows = [b"%d" % number for number in range(1000, 2000)]
    draw = Random(7)
    found = set()
    for _ in range(400):
        draw.shuffle(rows)
        found.add(fingerprint(rows[:500]))
    assert len(found) == 400


def test_columns_of_every_kind() -> None:
    headers = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    columns = [([{"key": "a", "value": b"x"}], headers), (None, headers), (3, pyarrow.int32()), (None, pyarrow.int32())]
    found = {
        Fingerprint().with_rows(pyarrow.RecordBatch.from_pydict({"it": pyarrow.array([value], kind)}), ["it"])
        for value, kind in [*columns, ([{"key": "a", "value": None}], headers), ([], headers), (4, pyarrow.int32())]
    }
    assert len(found) == 6  # all nulls are alike


def test_parts_of_a_batch() -> None:
    batch = pyarrow.RecordBatch.from_pydict({"value": [b"a", None, b"bc", b"", b"d"]})
    whole = Fingerprint().with_rows(batch, ("value",))
    for cut in range(6):
        parts = Fingerprint().with_rows(batch.slice(0, cut), ("value",)).with_rows(batch.slice(cut), ("value",))
        assert parts == whole
