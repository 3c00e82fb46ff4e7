"""Filters exclude the rows that they can, and those that Spark has to apply again are returned to Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.needs import PUSHDOWN

datasource = pytest.importorskip(
    "pyspark.sql.datasource", reason="pyspark is not installed: the extra `spark` brings it"
)
PUSHDOWN.require()

from pyspark.sql.datasource import (  # noqa: E402 - only where it has them
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from kafkawire.sdk.routing.partitions import TopicPartition  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.segments.plan import Wanted  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.segments.pushdown import PushedFilters, pushed  # noqa: E402 - it needs pyspark

TIME = datetime(2026, 1, 1, 0, 0, 0, 500, UTC)
TIME_MS = int(TIME.timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "topics", "partitions"),
    [
        (EqualTo(("topic",), "a"), {"a"}, None),
        (EqualNullSafe(("topic",), "a"), {"a"}, None),
        (In(("topic",), ("a", "b")), {"a", "b"}, None),
        (EqualTo(("partition",), 3), None, {3}),
        (In(("partition",), (1, 2)), None, {1, 2}),
    ],
)
def test_partitions(given: Filter, topics: set[str] | None, partitions: set[int] | None) -> None:
    found, left = pushed([given])
    assert (found.topics, found.partitions, found.offsets, left) == (topics, partitions, Wanted(), [])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (EqualTo(("offset",), 5), Wanted(5, 6)),
        (In(("offset",), (9, 5)), Wanted(5, 10)),
        (GreaterThan(("offset",), 5), Wanted(5)),
        (GreaterThanOrEqual(("offset",), -5), Wanted(0)),
        (LessThan(("offset",), 5), Wanted(0, 6)),
        (LessThanOrEqual(("offset",), -5), Wanted(0, 0)),
        (EqualTo(("timestamp",), TIME), Wanted(0, None, TIME_MS, TIME_MS + 1)),
        (GreaterThan(("timestamp",), TIME), Wanted(0, None, TIME_MS)),
        (LessThan(("timestamp",), TIME), Wanted(0, None, None, TIME_MS + 1)),
        (In(("timestamp",), (TIME, TIME + timedelta(seconds=1))), Wanted(0, None, TIME_MS, TIME_MS + 1001)),
    ],
)
def test_ranges(given: Filter, wanted: Wanted) -> None:
    found, left = pushed([given])
    assert found == PushedFilters(offsets=wanted)
    assert [id(each) for each in left] == [id(given)]


@pytest.mark.parametrize(
    "given",
    [
        IsNotNull(("topic",)),
        Not(EqualTo(("topic",), "a")),
        StringStartsWith(("topic",), "a"),
        EqualTo(("topic",), None),
        EqualTo(("partition",), None),
        EqualTo(("key",), b"x"),
        EqualTo(("_corrupt", "path"), "x"),
        EqualTo(("offset",), None),
        In(("offset",), ()),
        IsNotNull(("offset",)),
        Not(EqualTo(("offset",), 5)),
        EqualTo(("timestamp",), TIME.replace(tzinfo=None)),
    ],
)
def test_others(given: Filter) -> None:
    found, left = pushed([given])
    assert found == PushedFilters()
    assert [id(each) for each in left] == [id(given)]


def test_several() -> None:
    filters = [
        In(("topic",), ("a", "b")),
        In(("topic",), ("b", "c")),
        In(("partition",), (1, 2)),
        EqualTo(("partition",), 2),
        GreaterThan(("offset",), 5),
        GreaterThan(("offset",), 7),
        LessThan(("offset",), 99),
    ]
    found, left = pushed(filters)
    assert found == PushedFilters(frozenset("b"), frozenset([2]), Wanted(7, 100))
    assert left == filters[4:]
    folder = TopicPartition("b", 2)
    assert found.narrowed(folder, Wanted(0, 50, 3, 4)) == Wanted(7, 50, 3, 4)
    assert found.narrowed(folder, None) is None
    assert found.narrowed(TopicPartition("a", 2), Wanted()) is None
    assert found.narrowed(TopicPartition("b", 1), Wanted()) is None


def test_a_weaker_filter_leaves_options_as_they_are() -> None:
    found = PushedFilters(offsets=Wanted(0, None, 5)).narrowed(TopicPartition("t", 0), Wanted(0, None, 9))
    assert found == Wanted(0, None, 9)
