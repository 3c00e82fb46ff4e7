"""A user's function on the Arrow batches of a task: what it leaves out or sums up never goes to Spark.

Sending rows from Python to the JVM costs more than reading them, so this is where most of the time is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["MapBatches", "mapped"]

#: Takes an Arrow batch, and returns another one; None for no rows.
MapBatches = Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch | None]


def mapped(
    function: MapBatches, schema: StructType
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """Return what applies a function to each of some Arrow batches.

    Args:
        function: see above.
        schema: of what it returns.
    """
    return partial(_mapped, function=function, schema=to_arrow_schema(schema, timezone="UTC"))


def _mapped(
    batches: Iterable[pyarrow.RecordBatch], function: MapBatches, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        found = function(batch)
        if found is None or not found.num_rows:
            continue
        if not isinstance(found, pyarrow.RecordBatch):
            kind = type(found).__name__
            raise ConfigurationError("map_batches", kind, "it has to return a pyarrow.RecordBatch or None")
        yield found if found.schema.equals(schema) else _cast(found, schema)


def _cast(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return a batch with the types that Spark expects, which compares them exactly."""
    if batch.schema.names != schema.names:
        names = ", ".join(batch.schema.names)
        raise ConfigurationError("map_batches", names, f"the schema has the columns {', '.join(schema.names)}")
    try:
        arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ConfigurationError("map_batches", str(batch.schema), f"it does not fit the schema: {error}") from None
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
