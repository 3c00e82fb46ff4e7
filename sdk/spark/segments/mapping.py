"""Apply a user's function to the Arrow batches of a task: rows that it filters out or aggregates never reach Spark.

Passing rows from Python to the JVM costs more than reading them, so this saves most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["MapBatches", "check_schema", "mapped"]

#: A function that takes an Arrow batch, and returns another batch, a table, or None for no rows.
MapBatches = Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch | pyarrow.Table | None]


def check_schema(schema: StructType) -> None:
    """Raise an error for columns whose content Spark would not check.

    Args:
        schema: the schema of the function's result.

    Raises:
        ConfigurationError: a column is declared not null, or is repeated.
    """
    names = schema.names
    for field in _fields(schema):
        if not field.nullable:
            shown = f"{field.name} {field.dataType.simpleString()} NOT NULL"
            raise ConfigurationError("schema", shown, "no column may be declared NOT NULL")
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise ConfigurationError("schema", ", ".join(names), f"the column {twice[0]} is repeated")


def mapped(
    function: MapBatches, schema: StructType
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """Return a function that applies a user's function to each Arrow batch.

    Args:
        function: the user's function.
        schema: the schema of its result.

    Raises:
        ConfigurationError: see `check_schema`.
    """
    check_schema(schema)
    return partial(_mapped, function=function, schema=to_arrow_schema(schema, timezone="UTC"))


def _mapped(
    batches: Iterable[pyarrow.RecordBatch], function: MapBatches, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        found = function(batch)
        if found is not None and not isinstance(found, pyarrow.RecordBatch | pyarrow.Table):
            kind = f"{type(found).__module__}.{type(found).__qualname__}".removeprefix("builtins.")
            raise ConfigurationError("map_batches", kind, "must return a pyarrow.RecordBatch, a Table or None")
        if found is None or not found.num_rows:
            continue
        for each in [found] if isinstance(found, pyarrow.RecordBatch) else found.to_batches():
            yield each if each.schema.equals(schema) else _cast(each, schema)


def _cast(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return a batch with exactly the types that Spark expects."""
    if batch.schema.names != schema.names:
        names = ", ".join(batch.schema.names)
        raise ConfigurationError("map_batches", names, f"the schema has the columns {', '.join(schema.names)}")
    try:
        arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ConfigurationError(
            "map_batches", str(batch.schema), f"the columns do not fit the schema: {error}"
        ) from None
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _fields(kind: DataType) -> Iterator[StructField]:
    """Yield the fields of a type, including nested fields."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield field
            yield from _fields(field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _fields(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _fields(kind.keyType)
        yield from _fields(kind.valueType)
