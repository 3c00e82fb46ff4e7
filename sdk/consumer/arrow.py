"""Many batches as one Arrow record batch: making Arrow arrays costs as much as decoding hundreds of records.

Keys and values are views of the fetched bytes, as in `records/columns.py`. Needs pyarrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from kafkawire.sdk.records.columns import columns

if TYPE_CHECKING:
    import pyarrow

    from kafkawire.sdk.consumer.batch import ConsumerBatch

__all__ = ["to_arrow"]


def to_arrow(batches: Iterable[ConsumerBatch], *, headers: bool = False) -> pyarrow.RecordBatch:
    """Return the records of some batches as Arrow columns, without a Python object for each.

    Args:
        batches: of any partitions, in order.
        headers: whether there is a column of headers; they are an object for each record that has some.

    Returns:
        One row per record: topic (dictionary), partition (int32), offset, timestamp (ms, UTC), key, value (both views)
        and, if asked for, headers (a list of key and value).

    Raises:
        DecodeError: a record is damaged.
    """
    import pyarrow

    parts = []
    for (partition, _), group in groupby(batches, key=lambda batch: (batch.partition, batch.is_cut)):
        chosen = list(group)
        found = columns([batch.batch for batch in chosen], headers=headers).to_arrow()
        if chosen[0].is_cut:
            offsets = found.column("offset").to_pylist()
            first = bisect_left(offsets, chosen[0].start_offset)
            found = found.slice(first, bisect_left(offsets, chosen[-1].next_offset) - first)
        parts.append((partition, found))
    if not parts:
        parts.append((None, columns([], headers=headers).to_arrow()))
    tables = []
    for place, found in parts:
        count = found.num_rows
        name, number = ("", -1) if place is None else place
        topic = pyarrow.DictionaryArray.from_arrays(
            pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count), pyarrow.array([name], pyarrow.string())
        )
        arrays = {"topic": topic, "partition": pyarrow.repeat(pyarrow.scalar(number, pyarrow.int32()), count)}
        for column in found.schema.names:
            arrays[column] = found.column(column)
        arrays["timestamp"] = arrays["timestamp"].view(pyarrow.timestamp("ms", tz="UTC"))
        tables.append(pyarrow.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))
    return tables[0] if len(tables) == 1 else _joined(tables)


def _joined(parts: list[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    """Return several record batches as one."""
    import pyarrow

    arrays = []
    for name in parts[0].schema.names:
        chunks = [part.column(name) for part in parts]
        if name == "topic":
            names = sorted({chunk.dictionary[0].as_py() for chunk in chunks})
            indices = [
                pyarrow.repeat(pyarrow.scalar(names.index(chunk.dictionary[0].as_py()), pyarrow.int32()), len(chunk))
                for chunk in chunks
            ]
            joined = pyarrow.concat_arrays(indices)
            arrays.append(pyarrow.DictionaryArray.from_arrays(joined, pyarrow.array(names, pyarrow.string())))
        else:
            arrays.append(pyarrow.concat_arrays(chunks))
    return pyarrow.RecordBatch.from_arrays(arrays, parts[0].schema.names)
