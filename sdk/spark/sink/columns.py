"""The columns that the sink accepts: those of Spark's Kafka connector; all others are ignored.

Source: `KafkaWriter` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow
import pyarrow.compute
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError

__all__ = ["WrittenColumns", "by_topic", "checked_columns"]

#: Most of its functions are created at import time, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute

VALUE: Final = "value"
KEY: Final = "key"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
HEADERS: Final = "headers"

#: The Spark types that each column may have.
_TYPES: Final = {
    VALUE: ("string", "binary"),
    KEY: ("string", "binary"),
    TOPIC: ("string",),
    PARTITION: ("int",),
    HEADERS: ("array<struct<key:string,value:binary>>",),
}


class WrittenColumns(NamedTuple):
    """The existing columns, named after the arguments of `Producer.send_arrow`; None for a missing column."""

    key: str | None
    headers: str | None
    partition: str | None


def checked_columns(schema: StructType, topic: str | None) -> WrittenColumns:
    """Return the columns of a query.

    Args:
        schema: the schema of the query.
        topic: the topic option; None if the column is required.

    Raises:
        ConfigurationError: a column is missing, or has a type that cannot be written.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, allowed in _TYPES.items():
        if name == TOPIC and topic is not None:
            continue  # not written
        # A string with a collation is also a string.
        if name in kinds and kinds[name].partition(" ")[0] not in allowed:
            raise ConfigurationError("schema", f"{name} {kinds[name]}", f"expected {' or '.join(allowed)}")
    found = ", ".join(kinds) or "none"
    if VALUE not in kinds:
        raise ConfigurationError("schema", found, "a column `value` of type string or binary is required")
    if topic is None and TOPIC not in kinds:
        raise ConfigurationError("schema", found, "a column `topic` or the option topic is required")
    return WrittenColumns(*(name if name in kinds else None for name in (KEY, HEADERS, PARTITION)))


def by_topic(rows: pyarrow.RecordBatch, topic: str | None) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """Yield each topic with its rows, keeping the order of the rows.

    Args:
        rows: the rows of a task.
        topic: the topic of all rows; None if the column contains it.

    Raises:
        LocalProtocolError: a row has no topic.
    """
    if topic is not None:
        yield topic, rows
        return
    column = rows.column(TOPIC)
    if column.null_count:
        raise LocalProtocolError(
            f"column `topic`: null in {column.null_count} of {len(column)} rows; "
            "every row needs a topic, or the query needs the option topic"
        )
    encoded = column.dictionary_encode()
    topics = encoded.dictionary.to_pylist()
    if len(topics) == 1:
        yield topics[0], rows
        return
    # Make a single pass for any number of topics; a filter for each topic would read all rows once per topic.
    order = _COMPUTE.sort_indices(encoded.indices)  # a stable sort
    sorted_rows = rows.take(order)
    counts = _COMPUTE.value_counts(encoded.indices.take(order)).field("counts").to_pylist()
    start = 0
    for name, count in zip(topics, counts, strict=True):
        yield name, sorted_rows.slice(start, count)
        start += count
