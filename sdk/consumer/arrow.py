"""Convert many batches into one Arrow record batch, since creating its arrays costs as much as hundreds of records.

Keys and values are views into the fetched bytes, as in `records/columns.py`. This module needs pyarrow but avoids
pandas, which pyarrow imports as soon as it is given a list.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kafkawire.sdk.records.columns import ReadableBatch, cut_columns
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["PartitionBatch", "to_arrow"]

#: Arrow uses the machine's byte order.
_INT32 = struct.Struct("=i")


class PartitionBatch(Protocol):
    """A batch from a partition, and the range of its records to convert; for example, a `ConsumerBatch`."""

    @property
    def partition(self) -> TopicPartition:
        """The partition that the batch is from."""
        ...

    @property
    def batch(self) -> ReadableBatch:
        """The record batch."""
        ...

    @property
    def start_offset(self) -> int:
        """The first offset to convert."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset after the last one to convert."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether the batch has records outside the range."""
        ...


def to_arrow(batches: Iterable[PartitionBatch], *, headers: bool = False) -> pyarrow.RecordBatch:
    """Return the records of batches as Arrow columns, without creating a Python object per record.

    Args:
        batches: the batches, in order; they can be from different partitions.
        headers: whether to add a column of headers, which creates an object per record that has headers.

    Returns:
        One row per record: topic (dictionary), partition (int32), offset, timestamp (ms, UTC), key, value (both views)
        and, if asked for, headers (a list of key and value).

    Raises:
        DecodeError: a record is damaged.
    """
    import pyarrow

    chosen = list(batches)
    ranges = [(batch.start_offset, batch.next_offset) if batch.is_cut else None for batch in chosen]
    found, counts = cut_columns([batch.batch for batch in chosen], ranges, headers=headers)
    topics: dict[str, bytes] = {}
    indices, numbers = [], []
    for batch, count in zip(chosen, counts, strict=True):
        topic, partition = batch.partition
        index = topics.setdefault(topic, _INT32.pack(len(topics)))
        indices.append(index * count)
        numbers.append(_INT32.pack(partition) * count)
    array, buffer = pyarrow.Array.from_buffers, pyarrow.py_buffer
    by_index = array(pyarrow.int32(), found.count, [None, buffer(b"".join(indices))], 0)
    arrays = {
        "topic": pyarrow.DictionaryArray.from_arrays(by_index, _strings(topics)),
        "partition": array(pyarrow.int32(), found.count, [None, buffer(b"".join(numbers))], 0),
        **found.arrow_arrays(pyarrow.timestamp("ms", tz="UTC")),
    }
    return pyarrow.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def _strings(strings: Iterable[str]) -> pyarrow.Array:
    """Return an Arrow array of strings."""
    import pyarrow

    encoded = [string.encode() for string in strings]
    ends = [0]
    for each in encoded:
        ends.append(ends[-1] + len(each))
    buffers = [None, pyarrow.py_buffer(struct.pack(f"={len(ends)}i", *ends)), pyarrow.py_buffer(b"".join(encoded))]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(encoded), buffers, 0)
