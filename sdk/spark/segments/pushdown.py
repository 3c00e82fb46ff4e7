"""Skip data based on Spark's filters.

Topics and partitions that a filter excludes are not read. Filters on offsets and times merely exclude parts of segments
and batches, so Spark must apply them again.

Source: `Filter` in `pyspark.sql.datasource`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.plan import Wanted

__all__ = ["PushedFilters", "pushed"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EQUALS = (EqualTo, EqualNullSafe)
_AT_LEAST = (*_EQUALS, GreaterThan, GreaterThanOrEqual)
_AT_MOST = (*_EQUALS, LessThan, LessThanOrEqual)


class PushedFilters(NamedTuple):
    """The combined effect of all filters.

    Attributes:
        topics: topic names; None for any.
        partitions: partition numbers; None for any.
        offsets: the remaining range of offsets and times of a partition.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Wanted = Wanted()

    def narrowed(self, folder: TopicPartition, wanted: Wanted | None) -> Wanted | None:
        """Return the wanted records of a partition that remain; None if there are none."""
        if self.topics is not None and folder.topic not in self.topics:
            return None
        if self.partitions is not None and folder.partition not in self.partitions:
            return None
        return None if wanted is None else _both(wanted, self.offsets)


def pushed(filters: Iterable[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """Return the effect of filters, and the filters that Spark still has to apply.

    Args:
        filters: the filters, all of which must hold.
    """
    found = PushedFilters()
    left = []
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        values = _values(each)
        if column == "topic" and values and all(isinstance(value, str) for value in values):
            topics = frozenset(values)
            found = found._replace(topics=topics if found.topics is None else found.topics & topics)
        elif column == "partition" and values and all(type(value) is int for value in values):
            partitions = frozenset(values)
            found = found._replace(partitions=partitions if found.partitions is None else found.partitions & partitions)
        else:
            if column in ("offset", "timestamp"):
                found = found._replace(offsets=_both(found.offsets, _range(column, each)))
            left.append(each)
    return found, left


def _values(each: Filter) -> tuple[Any, ...]:
    """Return the values to which a filter restricts a column; empty for other filters."""
    if isinstance(each, In):
        return tuple(each.value)
    return (each.value,) if isinstance(each, _EQUALS) else ()


def _compared(each: Filter) -> Any:
    """Return the value with which a filter compares a column; None for other filters."""
    return getattr(each, "value", None)


def _range(column: str, each: Filter) -> Wanted:
    """Return the offsets or times that a filter permits, possibly with one more at each end."""
    values = _values(each) if isinstance(each, In) else (_compared(each),)
    wanted = Wanted()
    if column == "offset":
        if values and all(type(value) is int for value in values):
            if isinstance(each, (*_AT_LEAST, In)):
                wanted = wanted._replace(start_offset=max(min(values), 0))
            if isinstance(each, (*_AT_MOST, In)):
                wanted = wanted._replace(end_offset=max(max(values) + 1, 0))
    elif values and all(isinstance(value, datetime) and value.tzinfo is not None for value in values):
        milliseconds = [(value - _EPOCH) // timedelta(milliseconds=1) for value in values]
        if isinstance(each, (*_AT_LEAST, In)):
            wanted = wanted._replace(start_timestamp_ms=min(milliseconds))
        if isinstance(each, (*_AT_MOST, In)):
            wanted = wanted._replace(end_timestamp_ms=max(milliseconds) + 1)
    return wanted


def _both(one: Wanted, other: Wanted) -> Wanted:
    """Return the intersection of two ranges."""

    def least(first: int | None, second: int | None) -> int | None:
        return first if second is None else second if first is None else min(first, second)

    def most(first: int | None, second: int | None) -> int | None:
        return first if second is None else second if first is None else max(first, second)

    return Wanted(
        max(one.start_offset, other.start_offset),
        least(one.end_offset, other.end_offset),
        most(one.start_timestamp_ms, other.start_timestamp_ms),
        least(one.end_timestamp_ms, other.end_timestamp_ms),
    )
