"""Many batches become one table, which gives each record's topic, partition and offset.

Method: convert hand-built batches from two partitions, whole and cut.
"""

from __future__ import annotations

import datetime
import subprocess
import sys

import pytest

from kafkawire.sdk.consumer.arrow import to_arrow
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.records import BatchBuilder, walk
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.batches import made
from tests.sdk.consumer.user_side import T0, T1

pytest.importorskip("pyarrow", reason="columns need pyarrow")


def batch(partition: TopicPartition, data: bytes, start: int = 0, end: int | None = None) -> ConsumerBatch:
    return ConsumerBatch(partition, next(walk(data)), start, end)


def test_one_partition() -> None:
    found = to_arrow([batch(T0, made(0, b"a", b"b")), batch(T0, made(2, b"c" * 40))])
    assert found.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert found.column("topic").to_pylist() == ["t"] * 3
    assert found.column("partition").to_pylist() == [0] * 3
    assert found.column("offset").to_pylist() == [0, 1, 2]
    assert found.column("value").to_pylist() == [b"a", b"b", b"c" * 40]
    assert found.column("timestamp")[0].as_py() == datetime.datetime(1970, 1, 1, 0, 0, 0, 5000, datetime.UTC)


def test_several_partitions_and_cut_batches() -> None:
    parts = [
        batch(T0, made(0, b"a", b"b", b"c"), start=1),
        batch(T1, made(7, b"x", b"y")),
        batch(TopicPartition("s", 3), made(0, b"p", b"q"), end=1),
        batch(T0, made(3, b"d")),
    ]
    found = to_arrow(parts)
    rows = list(zip(*(found.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True))
    assert rows == [("t", 0, 1), ("t", 0, 2), ("t", 1, 7), ("t", 1, 8), ("s", 3, 0), ("t", 0, 3)]
    assert found.column("value").to_pylist() == [b"b", b"c", b"x", b"y", b"p", b"d"]


def test_headers() -> None:
    builder = BatchBuilder()
    builder.append(5, b"k", None, [("name", b"v"), ("none", None)])
    (row,) = batch(T0, builder.build()).to_arrow(headers=True).column("headers").to_pylist()
    assert row == [{"key": "name", "value": b"v"}, {"key": "none", "value": None}]


def test_nothing() -> None:
    assert to_arrow([]).num_rows == 0


def test_topics_are_named_once() -> None:
    parts = [batch(TopicPartition(topic, 0), made(0, b"a", b"b")) for topic in ("s", "é", "s", "t")]
    found = to_arrow(parts)
    found.validate(full=True)
    assert found.column("topic").dictionary.to_pylist() == ["s", "é", "t"]
    assert found.column("topic").to_pylist() == ["s", "s", "é", "é", "s", "s", "t", "t"]


def test_columns_need_no_library_but_pyarrow() -> None:
    program = """
import sys, pyarrow
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.records import BatchBuilder, walk
builder = BatchBuilder()
builder.append(5, b"k", b"v")
before = set(sys.modules)
ConsumerBatch(TopicPartition("t", 0), next(walk(builder.build())), 0).to_arrow()
print(*(name for name in set(sys.modules) - before if name.partition(".")[0] not in ("kafkawire", "pyarrow", "bisect")))
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"pandas", "numpy"} & set(output.replace(".", " ").split())
