"""Marks: what a transaction of the sink commits beside its rows, so that they are not written a second time.

A mark is an offset of a group: the number of a micro-batch, with the query and what was written as its metadata. It is
committed with the rows or not at all. Each transactional id has a group of its name, for what its task has written;
the group `prefix-commit` says of how many tasks the micro-batch consists whose transactions are being committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import pyarrow
import pyarrow.compute

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.spark.sink.task import WriteTask

__all__ = ["Fingerprint", "Mark"]

#: Most of its functions are made when it is imported, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute


class Fingerprint(NamedTuple):
    """What some rows have in common with the same rows in any other order, and with few others.

    Attributes:
        rows: how many there are.
        size_bytes: of their keys and values.
        total: of all bytes of keys and values, as numbers.
    """

    rows: int = 0
    size_bytes: int = 0
    total: int = 0

    def with_rows(self, rows: pyarrow.RecordBatch, names: Iterable[str]) -> Self:
        """Return the fingerprint of these rows and some more, of which the named columns count."""
        contents = [_bytes(rows.column(name)) for name in names]
        size_bytes = sum(map(len, contents))
        total = sum(_COMPUTE.sum(each).as_py() or 0 for each in contents)
        return self._replace(
            rows=self.rows + rows.num_rows, size_bytes=self.size_bytes + size_bytes, total=self.total + total
        )


class Mark(NamedTuple):
    """A mark.

    Attributes:
        query_id: of the query.
        batch_id: of the micro-batch.
        what: numbers that say what was written.
    """

    query_id: str
    batch_id: int
    what: tuple[int, ...]

    def offsets(self, topic: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the mark as a group's offset.

        Args:
            topic: one that exists: others are refused.
        """
        text = " ".join([self.query_id, *map(str, self.what)])
        return {TopicPartition(topic, 0): OffsetAndMetadata(self.batch_id, text)}

    @classmethod
    def last(cls, offsets: Mapping[TopicPartition, OffsetAndMetadata], task: WriteTask) -> Self | None:
        """Return the last mark of a query among a group's offsets; None without one.

        Args:
            offsets: of the group: a mark of each topic that ever had one.
            task: of the query.
        """
        found = [offset for offset in offsets.values() if offset.metadata.partition(" ")[0] == task.query_id]
        if not found:
            return None
        last = max(found, key=lambda each: each.offset)
        return cls(task.query_id, last.offset, tuple(map(int, last.metadata.split()[1:])))


def _bytes(column: pyarrow.Array) -> pyarrow.Array:
    """Return all bytes of a column of binary or text as numbers."""
    column = column.cast(pyarrow.binary())
    validity, offsets, data = column.buffers()
    if data is None:
        return pyarrow.array([], pyarrow.uint8())
    numbers = pyarrow.Array.from_buffers(pyarrow.uint8(), data.size, [None, data])
    kind = pyarrow.list_(pyarrow.uint8())
    lists = pyarrow.Array.from_buffers(kind, len(column), [validity, offsets], offset=column.offset, children=[numbers])
    return lists.flatten()
