"""Decode records into rows of plain Arrow columns, in pieces whose size is limited however large the batches are.

The columns of `columns.py` point into the fetched bytes, for readers that use them in place. The rows made here are
copies of keys, values and headers in columns that every Arrow reader supports, for Spark, Parquet and other users that
would copy them anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.columns import OffsetRange
from kafkawire.sdk.records.engines import python_rows
from kafkawire.sdk.records.engines.selection import native
from kafkawire.sdk.records.engines.shared_rows import (
    COLUMNS,
    ROWS_BYTES_MAX,
    ROWS_MAX,
    BatchColumns,
    BatchOfRows,
    HeaderColumns,
    PlainBatches,
    PlainColumn,
    RowColumns,
)

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "COLUMNS",
    "ROWS_BYTES_MAX",
    "ROWS_MAX",
    "BatchColumns",
    "BatchOfRows",
    "HeaderColumns",
    "PlainBatches",
    "PlainColumn",
    "RowColumns",
    "RowsBuilder",
    "arrow_arrays",
    "rows_builder",
]


class RowsBuilder(Protocol):
    """Collects rows from one batch after another until they are taken.

        builder.begin(batch)
        while not builder.fill():
            yield builder.take()

    Attributes:
        count: the number of rows waiting to be taken.
        size_in_bytes: the size of their requested keys, values and headers.
    """

    @property
    def count(self) -> int: ...

    @property
    def size_in_bytes(self) -> int: ...

    def begin(self, batch: BatchOfRows, wanted: OffsetRange = None, position: int = -1) -> None:
        """Begin a batch, dropping the rest of an unfinished one.

        Args:
            batch: a batch of any magic, whose checksum was verified.
            wanted: the wanted records; None for all.
            position: the batch's position for `BatchColumns`.

        Raises:
            DecodeError: the batch is damaged; none of its rows is added.
        """
        ...

    def fill(self) -> bool:
        """Add rows until the batch is complete; return False if the rest will fit only after `take`.

        Raises:
            DecodeError: a key or value is too large for a column.
        """
        ...

    def add_plain(self, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        """Add whole batches without creating objects, up to the first that is not plain or does not fit.

        A plain batch is of magic 2, uncompressed, undamaged and not a control batch. The caller reads all other batches
        individually and reports any damage in them. The Python engine, which needs objects anyway, adds no batches.

        Args:
            content: the bytes, beginning with the first batch.
            plain: selects the batches to add.

        Returns:
            The size of the added batches; the offset after the last one, if there is one.
        """
        ...

    def take(self) -> RowColumns:
        """Return the rows and start over with none."""
        ...


def rows_builder(
    columns: Iterable[str] = COLUMNS, *, rows_max: int = ROWS_MAX, bytes_max: int = ROWS_BYTES_MAX
) -> RowsBuilder:
    """Return a builder on the engine in use.

    Args:
        columns: the wanted names, from `COLUMNS`.
        rows_max: the maximum number of waiting rows.
        bytes_max: the maximum total size of waiting keys, values and headers in bytes; only a single larger record can
            exceed it.

    Raises:
        ValueError: a column does not exist, or a limit is below 1.
    """
    kind = python_rows.RowsBuilder if native is None else native.RowsBuilder
    built: RowsBuilder = kind(columns, rows_max=rows_max, bytes_max=bytes_max)
    return built


def arrow_arrays(rows: RowColumns) -> dict[str, pyarrow.Array]:
    """Return rows as Arrow arrays keyed by column name (see `COLUMNS`), with UTC timestamps in ms, without copying."""
    import pyarrow

    arrays: dict[str, pyarrow.Array] = {}
    for name, column in (("key", rows.keys), ("value", rows.values)):
        if column is not None:
            arrays[name] = _binary(column, pyarrow.binary())
    for name, kind, numbers in (
        ("offset", pyarrow.int64(), rows.offsets),
        ("timestamp", pyarrow.timestamp("ms", "UTC"), rows.timestamps),
    ):
        if numbers is not None:
            arrays[name] = pyarrow.Array.from_buffers(kind, rows.rows_count, [None, pyarrow.py_buffer(numbers)], 0)
    if rows.headers is not None:
        names = _binary(rows.headers.names, pyarrow.string())
        values = _binary(rows.headers.values, pyarrow.binary())
        lists = rows.headers.lists
        headers = pyarrow.StructArray.from_arrays([names, values], ["key", "value"])
        kind = pyarrow.list_(headers.type)
        arrays["headers"] = pyarrow.Array.from_buffers(
            kind, rows.rows_count, _buffers(lists)[:2], lists.nulls, children=[headers]
        )
    return arrays


def _binary(column: PlainColumn, kind: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow

    count = len(memoryview(column.ends)) // 4 - 1
    return pyarrow.Array.from_buffers(kind, count, _buffers(column), column.nulls)


def _buffers(column: PlainColumn) -> list[pyarrow.Buffer | None]:
    import pyarrow

    validity = None if column.validity is None else pyarrow.py_buffer(column.validity)
    return [validity, pyarrow.py_buffer(column.ends), pyarrow.py_buffer(column.data)]
