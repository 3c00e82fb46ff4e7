"""Decode columns of raw record batches in Spark: the functions that users call.

They take a DataFrame with bytes and return one with the columns of Spark's Kafka connector; `arrow.py` does the work in
the executors' Python workers.
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
    """Decode raw record batches into the columns of Spark's Kafka connector, one row per record.

    The workers need `kafkawire` and `pyarrow`: set `PYSPARK_PYTHON` to a Python that has them before the session
    starts.

    Args:
        df: any DataFrame with a binary column.
        column: the column with record batches, one or more per value: the bytes of a fetch response or a log segment.
        topic: a column with the topic's name, or an expression such as `lit("orders")`; None for null.
        partition: a column with the partition number, an expression, or the number itself; None for null.
        headers: whether to include the headers.
        errors: "raise" fails the task at the first damaged batch, naming its row and position; a partial batch at the
            end of a value counts as damaged. "skip" leaves out damaged batches, and the rest of a value after a
            damaged size: use it for segments that a broker is writing to.

    Returns:
        The columns key, value, topic, partition, offset, timestamp, timestampType and, with `headers`, headers; names
        and types are the connector's, so that a query works on either.

    Raises:
        ConfigurationError: `errors` is neither "raise" nor "skip".
    """
    from pyspark.sql import functions

    from kafkawire.sdk.spark import arrow

    if errors not in get_args(arrow.Errors):
        raise ConfigurationError("errors", errors, 'expected "raise" or "skip"')
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
    """Decode the rows of a task; imports pyarrow in the worker only."""
    from kafkawire.sdk.spark.arrow import decoded

    return decoded(rows, headers, errors)
