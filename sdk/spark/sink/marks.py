"""Marks, which a transaction of the sink commits along with its rows to keep them from being written a second time.

A mark is a group's offset: the number of a micro-batch, with the query and a summary of the rows as metadata. It is
committed together with the rows or not at all. Each transactional id has a group of the same name, for the rows of its
task; the group `prefix-commit` holds the number of tasks of the micro-batch whose transactions are being committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from zlib import crc32

import numpy
import pyarrow

from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.spark.sink.task import WriteTask

__all__ = ["Fingerprint", "Mark", "is_mark"]

_Numbers = numpy.ndarray[Any, numpy.dtype[numpy.uint64]]

#: The number of rows whose values are converted to Python objects at a time.
_ROWS_AT_A_TIME: Final = 256

#: The metadata that `Mark.offsets` writes: the id of a query, and at least one number.
_METADATA: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?: \d+)+", re.ASCII)

#: The length used for a null; no value has it.
_NULL: Final = 2**64 - 1


class Fingerprint(NamedTuple):
    """A fingerprint of rows that does not depend on their order and that other rows are unlikely to share.

    Attributes:
        rows: the number of rows.
        total: the sum, modulo 2**64, of one number per row, each of which depends on all of the row's bits.
    """

    rows: int = 0
    total: int = 0

    def with_rows(self, rows: pyarrow.RecordBatch, names: Iterable[str]) -> Self:
        """Return the fingerprint of these rows plus more rows, of which only the named columns are included."""
        numbers = numpy.zeros(rows.num_rows, numpy.uint64)
        for name in names:
            numbers = _mixed(numbers ^ _checksums(rows.column(name)))
        return self._replace(rows=self.rows + rows.num_rows, total=(self.total + int(numbers.sum())) % 2**64)


class Mark(NamedTuple):
    """A mark.

    Attributes:
        query_id: the query id.
        batch_id: the number of the micro-batch.
        what: numbers that describe the written rows.
    """

    query_id: str
    batch_id: int
    what: tuple[int, ...]

    def offsets(self, topic: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the mark as a group's offset.

        Args:
            topic: an existing topic; brokers refuse any other.
        """
        text = " ".join([self.query_id, *map(str, self.what)])
        return {TopicPartition(topic, 0): OffsetAndMetadata(self.batch_id, text)}

    @classmethod
    def last(cls, offsets: Mapping[TopicPartition, OffsetAndMetadata], task: WriteTask) -> Self | None:
        """Return the last mark of a query among a group's offsets; None if there is none.

        Args:
            offsets: the offsets of the group, with a mark for each topic that has ever had one.
            task: a task of the query.
        """
        found = [offset for offset in offsets.values() if offset.metadata.partition(" ")[0] == task.query_id]
        if not found:
            return None
        last = max(found, key=lambda each: each.offset)
        return cls(task.query_id, last.offset, tuple(map(int, last.metadata.split()[1:])))


def is_mark(metadata: str) -> bool:
    """Return whether a group's offset is a mark rather than a reader's position, judging by its metadata."""
    return _METADATA.fullmatch(metadata) is not None


def _checksums(column: pyarrow.Array) -> _Numbers:
    """Return the length and checksum of each value; their sums alone would not reveal swapped values."""
    contents = (
        None if value is None else value if isinstance(value, bytes) else str(value).encode()
        for start in range(0, len(column), _ROWS_AT_A_TIME)
        for value in column.slice(start, _ROWS_AT_A_TIME).to_pylist()
    )
    found = (_NULL if content is None else len(content) << 32 | crc32(content) for content in contents)
    return numpy.fromiter(found, numpy.uint64, len(column))


def _mixed(numbers: _Numbers) -> _Numbers:
    """Spread each bit over all others, which makes equal sums a mere coincidence (Steele's SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> numpy.uint64(shift))) * numpy.uint64(factor)
    return numbers ^ (numbers >> numpy.uint64(31))
