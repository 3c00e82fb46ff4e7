"""Decode columns of raw record batches in Spark: the face that users call.

A DataFrame with bytes in, one with the columns of Spark's Kafka connector out; the work is done in Arrow, in the Python
workers of the executors, by `arrow.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, get_args

from kafkawire.sdk.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

    from kafkawire.sdk.spark.arrow import Errors

__all__ = ["decode_batches"]

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"


def decode_batches(
    df: DataFrame,
    column: str | Column,
    *,
    topic: str | Column | None = None,
    partition: str | Column | int | None = None,
    headers: bool = False,
    errors: Errors = "raise",
) -> DataFrame:
    """Return the records inside raw record batches, with the columns of Spark's Kafka connector.

    The columns are key, value, topic, partition, offset, timestamp, timestampType and, on request, headers; names and
    types are the connector's, so that a query works on either. The workers need `kafkawire` and `pyarrow`: set
    `PYSPARK_PYTHON` to their Python before the session starts.

    Args:
        df: any DataFrame with a binary column.
        column: holds record batches, one or several in each value: the bytes of a fetch response, or of a log segment.
        topic: a column with the topic's name, or an expression, as `lit("orders")`; None for null.
        partition: a column with the number of the partition, an expression, or the number itself; None for null.
        headers: whether to give the headers too.
        errors: "raise" fails the task at the first damaged batch, with its row and place; "skip" leaves damaged batches
            out, and what follows a damaged size in the same value.

    Raises:
        ConfigurationError: `errors` is neither.
    """
    from pyspark.sql import functions

    from kafkawire.sdk.spark import arrow

    if errors not in get_args(arrow.Errors):
        raise ConfigurationError("errors", errors, '"raise" or "skip" is expected')
    named = partition if partition is None or not isinstance(partition, int) else functions.lit(partition)
    carried = [functions.lit(None) if each is None else _column(each) for each in (topic, named)]
    raw = df.select(
        _column(column).cast("binary").alias("batches"),
        carried[0].cast("string").alias("topic"),
        carried[1].cast("int").alias("partition"),
    )
    schema = f"{_COLUMNS}, {_HEADERS}" if headers else _COLUMNS
    return raw.mapInArrow(partial(_decode, headers=headers, errors=errors), schema)


def _column(column: str | Column) -> Column:
    from pyspark.sql import functions

    return functions.col(column) if isinstance(column, str) else column


def _decode(rows: Iterator[pyarrow.RecordBatch], *, headers: bool, errors: Errors) -> Iterator[pyarrow.RecordBatch]:
    """Do the work of a task; the module that needs Arrow is loaded in the worker."""
    from kafkawire.sdk.spark.arrow import decoded

    return decoded(rows, headers, errors)
