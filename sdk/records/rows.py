"""Records as rows of plain Arrow columns, a limited piece at a time, however large the batches are.

What `columns.py` makes points into the fetched bytes, for readers that look at them in place. Here keys, values and
headers are copied into columns that every reader of Arrow knows: for Spark, Parquet and others that would copy them
anyway.
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
    """Rows that grow batch by batch, until they are taken.

        builder.begin(batch)
        while not builder.fill():
            yield builder.take()

    Attributes:
        count: how many rows wait to be taken.
        size_in_bytes: of their keys, values and headers, as far as these are asked for.
    """

    @property
    def count(self) -> int: ...

    @property
    def size_in_bytes(self) -> int: ...

    def begin(self, batch: BatchOfRows, wanted: OffsetRange = None, position: int = -1) -> None:
        """Begin with a batch; one that was begun before and not finished is left.

        Args:
            batch: of any magic, its checksum compared.
            wanted: which records are wanted; None for all.
            position: what `BatchColumns` says of where it is.

        Raises:
            DecodeError: the batch is broken: no row of it is there.
        """
        ...

    def fill(self) -> bool:
        """Add rows until the batch is done; return False if there is no room for more of it before `take`.

        Raises:
            DecodeError: a key or value is too large for a column.
        """
        ...

    def add_plain(self, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        """Add whole batches without an object for each, up to the first that is not plain or does not fit.

        A plain one is of magic 2, not compressed, no control batch, and right: what is wrong with others is up to those
        who look at them one by one. Python, which has objects in any case, adds none.

        Args:
            content: where they are, from the first byte on.
            plain: which of them.

        Returns:
            How many bytes they have; the offset after the last one, if there is one.
        """
        ...

    def take(self) -> RowColumns:
        """Return the rows, and begin with none."""
        ...


def rows_builder(
    columns: Iterable[str] = COLUMNS, *, rows_max: int = ROWS_MAX, bytes_max: int = ROWS_BYTES_MAX
) -> RowsBuilder:
    """Return a builder of the engine in use.

    Args:
        columns: names of `COLUMNS`; the others are left out.
        rows_max: most rows that wait.
        bytes_max: most bytes of keys, values and headers that wait, unless a single record has more.

    Raises:
        ValueError: a record has no such column, or a limit is below 1.
    """
    kind = python_rows.RowsBuilder if native is None else native.RowsBuilder
    built: RowsBuilder = kind(columns, rows_max=rows_max, bytes_max=bytes_max)
    return built


def arrow_arrays(rows: RowColumns) -> dict[str, pyarrow.Array]:
    """Return rows as Arrow arrays by the names of `COLUMNS`, timestamps in ms of UTC; nothing is copied."""
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
