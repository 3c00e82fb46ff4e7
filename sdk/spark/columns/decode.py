"""Decode columns of raw record batches in Spark: the functions that users call.

They take a DataFrame with a column of bytes and return one with the columns of Spark's Kafka connector; `raw_values.py`
does the work in the executors' Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

    from kafkawire.sdk.spark.columns.raw_values import DecodeOptions

__all__ = ["decode_batches"]

#: The fields of an aborted transaction.
_OF_ABORTED = ("producerId", "firstOffset")
_ABORTED = f"array<struct<{', '.join(f'`{name}`: bigint' for name in _OF_ABORTED)}>>"


def decode_batches(
    df: DataFrame,
    column: str | Column,
    *,
    topic: str | Column | None = None,
    partition: str | Column | int | None = None,
    headers: bool = False,
    extra: Iterable[str] = (),
    mode: str = "FAILFAST",
    isolation_level: str = "read_uncommitted",
    aborted: str | Column | None = None,
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES,
) -> DataFrame:
    """Decode raw record batches into the columns of Spark's Kafka connector, one row per record.

    The workers need `kafkawire` and `pyarrow`: before the session starts, set `PYSPARK_PYTHON` to a Python installation
    that has them.

    Args:
        df: any DataFrame with a binary column.
        column: the column with record batches, one or more per value, such as the bytes of a fetch response or a log
            segment. Every byte of a value must belong to a batch.
        topic: a column with the topic's name, or an expression such as `lit("orders")`; None for null.
        partition: a column with the partition number, an expression, or the number itself; None for null.
        headers: whether to include the headers.
        extra: the names of the extra columns to add (see below).
        mode: how damaged bytes are handled: "FAILFAST" fails the task at the first damage, naming the row and position;
            "PERMISSIVE" adds a row for each damaged region, with `_corrupt` set and null in all other columns but topic
            and partition; "DROPMALFORMED" skips damaged regions, and logs them and their number. Reading continues at
            the next batch with a valid checksum.
        isolation_level: "read_committed" (case-insensitive) omits records of transactions that were aborted or have not
            ended.
        aborted: the aborted transactions of a fetch response, as `array<struct<producerId, firstOffset>>`, for
            "read_committed"; without it, the markers in the same value determine how transactions ended. Fields are
            matched by name, and nulls in the list are ignored.
        decompressed_bytes_max: the maximum size of a batch's records after decompression, in bytes; a larger batch is
            treated as damaged.

    Returns:
        The connector's columns, so the same query works on both: `key: binary`, `value: binary`, `topic: string`,
        `partition: int`, `offset: bigint`, `timestamp: timestamp`, `timestampType: int`; and those that were requested:
        `headers: array<struct<key: string, value: binary>>`; `leaderEpoch`, `producerEpoch`, `sequence: int`;
        `producerId`, `batchOffset`, `batchPosition: bigint`; `isTransactional: boolean`; `compression: string`; `path:
        string`, null here; `_corrupt: struct<path: string, position: bigint, size: bigint, reason: string>`.

    Raises:
        ConfigurationError: the mode, isolation level or an extra column is unknown, `aborted` is not such a list, or
            the limit is not a number of at least 1.
    """
    from pyspark.sql import functions

    from kafkawire.sdk.spark import schema
    from kafkawire.sdk.spark.columns.raw_values import decode_options

    options = decode_options(
        headers=headers,
        extra=extra,
        mode=mode,
        isolation_level=isolation_level,
        decompressed_bytes_max=decompressed_bytes_max,
    )
    named = partition if partition is None or not isinstance(partition, int) else functions.lit(partition)
    columns = [
        _column(column).cast("binary").alias("batches"),
        _column(topic).cast("string").alias("topic"),
        _column(named).cast("int").alias("partition"),
    ]
    if aborted is not None:
        columns.append(_aborted(df, _column(aborted)).alias("aborted"))
    return df.select(*columns).mapInArrow(partial(_decode, options=options), schema.ddl(options.names))


def _column(column: str | Column | None) -> Column:
    from pyspark.sql import functions

    if column is None:
        return functions.lit(None)
    return functions.col(column) if isinstance(column, str) else column


def _aborted(df: DataFrame, column: Column) -> Column:
    """Return a column of aborted transactions with the fields in the expected order.

    A cast would match fields by position, and could mistake a producer id for an offset.

    Raises:
        ConfigurationError: the column is not a list of structs with these fields.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, NullType, StructType

    kind = df.select(column).schema[0].dataType
    content = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(content, NullType):  # null, or an empty list
        return column.cast(_ABORTED)
    names = {name.lower(): name for name in content.names} if isinstance(content, StructType) else {}
    if content is kind or not {name.lower() for name in _OF_ABORTED} <= names.keys():
        raise ConfigurationError("aborted", kind.simpleString(), f"expected {_ABORTED.replace('`', '')}")

    def named(each: Column) -> Column:
        fields = [each.getField(names[name.lower()]).cast("bigint").alias(name) for name in _OF_ABORTED]
        return functions.when(each.isNotNull(), functions.struct(*fields))

    return functions.transform(column, named)


def _decode(rows: Iterator[pyarrow.RecordBatch], *, options: DecodeOptions) -> Iterator[pyarrow.RecordBatch]:
    """Decode the rows of a task; pyarrow is imported only in the worker."""
    from kafkawire.sdk.spark.columns.raw_values import decoded

    return decoded(rows, options)
