"""A header that identifies each row, which lets readers drop rows that a repeated task has written again.

The id is `query/micro-batch/task/row`: every attempt at a task yields the same ids, as long as the order of the rows
does not change.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow
import pyarrow.compute

from kafkawire.sdk.spark import schema
from kafkawire.sdk.spark.sink.columns import HEADERS
from kafkawire.sdk.spark.sink.task import WriteTask

__all__ = ["ROW_ID", "with_row_ids"]

#: Most of its functions are created at import time, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute

#: The name of the header.
ROW_ID: Final = "spark-row-id"

_HEADERS_TYPE: Final = schema.COLUMNS[schema.HEADERS].arrow


def with_row_ids(rows: pyarrow.RecordBatch, task: WriteTask, first: int) -> pyarrow.RecordBatch:
    """Return rows, each with an additional header.

    Args:
        rows: the rows of a task.
        task: the task that writes them.
        first: the number of the first row in the task.
    """
    batch = task.batch_id if task.is_streaming else ""
    prefix = f"{task.query_id}/{batch}/{task.number}/"
    numbers = pyarrow.array(range(first, first + rows.num_rows), pyarrow.int64()).cast(pyarrow.string())
    ids = _COMPUTE.binary_join_element_wise(prefix, numbers, "").cast(pyarrow.binary())
    names = pyarrow.repeat(ROW_ID, rows.num_rows)
    added = pyarrow.StructArray.from_arrays([names, ids], fields=list(_HEADERS_TYPE.value_type))
    if HEADERS in rows.schema.names:
        headers = _appended(rows.column(HEADERS).cast(_HEADERS_TYPE), added)
        return rows.set_column(rows.schema.get_field_index(HEADERS), HEADERS, headers)
    return rows.append_column(HEADERS, _lists(pyarrow.repeat(1, rows.num_rows), added))


def _appended(lists: pyarrow.ListArray, added: pyarrow.StructArray) -> pyarrow.ListArray:
    """Return lists, each with an extra element; a null list is treated as empty."""
    own = pyarrow.array(range(len(lists)), pyarrow.int64())
    rows = pyarrow.concat_arrays([_COMPUTE.list_parent_indices(lists), own])
    elements = pyarrow.concat_arrays([lists.flatten(), added]).take(_COMPUTE.sort_indices(rows))  # a stable sort
    return _lists(_COMPUTE.add(_COMPUTE.fill_null(_COMPUTE.list_value_length(lists), 0), 1), elements)


def _lists(lengths: pyarrow.Array, elements: pyarrow.StructArray) -> pyarrow.ListArray:
    ends = _COMPUTE.cumulative_sum(lengths).cast(pyarrow.int32())
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int32()), ends])
    return pyarrow.ListArray.from_arrays(offsets, elements)
