"""Segments as a stream: a broker's growing folder, or a backup to which files are added.

The checkpoint contains Kafka's offsets: the next offset of each partition, named `topic-partition`. Segments may
therefore be rolled, compacted or removed: a restarted query still reads the records that it would have read.

Source: `KafkaMicroBatchStream` in Apache Spark; `pyspark.sql.streaming.datasource`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kafkawire.sdk.spark.data_loss import begins_later, report_loss
from kafkawire.sdk.spark.offset_limits import limited_by_offsets
from kafkawire.sdk.spark.segments.byte_limits import limited_by_bytes
from kafkawire.sdk.spark.segments.end_offsets import PartitionEnds
from kafkawire.sdk.spark.segments.files import FoundSegment, nothing_found
from kafkawire.sdk.spark.segments.options import SegmentOptions
from kafkawire.sdk.spark.segments.plan import Wanted, plan, tasks
from kafkawire.sdk.spark.segments.reading import read_options, read_parts
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.spark.selection import EARLIEST, LATEST, Offsets

__all__ = ["SegmentStreamReader"]

_log = logging.getLogger("kafkawire.spark")

#: The segments of each partition, in order, keyed by partition name.
_Partitions = dict[str, list[FoundSegment]]


class SegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream.

    Args:
        options: the user's options.
        names: the column names.
        mapping: the function to apply to the Arrow batches; None for none.

    Raises:
        ConfigurationError: a path is invalid.
    """

    def __init__(
        self,
        options: SegmentOptions,
        names: tuple[str, ...],
        mapping: Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]] | None = None,
    ) -> None:
        self._options = options
        self._fails_on_loss = options.fails_on_loss is not False
        # Unlike a user who names a topic, one who names a folder wants its existing content.
        self._asked = options.starting_offsets or Offsets(EARLIEST)
        self._read_options = read_options(options, names, self._fails_on_loss)
        self._mapping = mapping
        self._files = SegmentFiles(options.paths, options.path_pattern)
        self._ends = PartitionEnds(self._files)
        #: Where the query ends if it reads only the data available now.
        self._target: dict[str, int] | None = None
        self._reported: dict[str, int] | None = None
        #: The partitions whose loss was reported while micro-batches were planned.
        self._lost: set[str] = set()

    # Start and end.

    def initialOffset(self) -> dict[str, int]:
        """Return where a new query begins.

        Raises:
            ConfigurationError: a path does not exist, or offsets name a partition that is not selected.
            OSError: a folder or a segment cannot be read.
        """
        self._options.check_new_stream()
        found = {}
        there, listed = self._files.look()
        if not there:  # a broker may be about to write the first ones
            _log.warning("%s", nothing_found(", ".join(self._options.paths), listed))
        for key, segments in self._partitions().items():
            offset = self._asked.of(segments[0].folder)
            if offset == EARLIEST:
                offset = segments[0].start_offset
            elif offset == LATEST:
                offset = self._end(segments, segments[0].start_offset)
            found[key] = offset
        return found

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit for a micro-batch."""
        if self._options.trigger_offsets_max is not None:
            return ReadMaxRows(self._options.trigger_offsets_max)
        if self._options.trigger_bytes_max is not None:
            return ReadMaxBytes(self._options.trigger_bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return where the next micro-batch ends.

        Args:
            start: where it begins.
            limit: its maximum size.

        Raises:
            LocalProtocolError: records to be read are gone, and the options make that an error.
            ConfigurationError: a path does not exist.
            OSError: a folder or a segment cannot be read.
        """
        partitions = self._partitions()
        ends = self._available(partitions, start)
        self._reported = {**start, **ends}
        if self._target is not None:
            ends = {key: min(end, self._target[key]) for key, end in ends.items() if key in self._target}
        ranges = {}
        for key, end in ends.items():
            begin = start.get(key, self._first(partitions[key]))
            if begin < end:
                ranges[key] = begin, end
        if isinstance(limit, ReadMaxRows):
            taken = limited_by_offsets(ranges, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            written = {key: self._written(partitions[key]) for key in ranges}
            taken = limited_by_bytes(ranges, written, self._files, limit.max_bytes)
        else:
            taken = {key: end for key, (_, end) in ranges.items()}
        return {**start, **taken}

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the end of a query that reads only the data available now.

        Raises:
            ConfigurationError: a path does not exist.
            OSError: a folder or a segment cannot be read.
        """
        partitions = self._partitions()
        self._target = {key: self._ends.of(segments[-1]).offset for key, segments in partitions.items()}

    def reportLatestOffset(self) -> dict[str, int] | None:
        """Return the end of each partition at the time when the last micro-batch was planned."""
        return self._reported

    # Reading.

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the tasks of a micro-batch.

        Raises:
            LocalProtocolError: records to be read are gone, and the options make that an error.
            ConfigurationError: a path does not exist.
            OSError: a folder cannot be listed, or an index cannot be read.
        """
        partitions = self._partitions()
        wanted: dict[str, Wanted] = {}
        for key, until in end.items():
            segments = partitions.get(key, [])
            if not segments and key not in start:
                self._lose(f"{key} no longer exists, but was to be read up to offset {until}")
            first = segments[0].start_offset if segments else until
            begin = start.get(key, self._first(segments) if segments else until)
            if begin >= until:
                continue
            if begin < first:
                self._lose(begins_later(key, begin, first, until))
            if segments and (reached := self._ends.of(segments[-1]).offset) < until:
                self._lose(
                    f"{key}: offsets {max(begin, reached)} to {until - 1} are gone; the partition ends at {reached}"
                )
            is_continued = begin > first and begin != self._asked.named.get(segments[0].folder)
            wanted[key] = Wanted(begin, until, self._options.starting_timestamp_ms, is_continued=is_continued)
        found = [each for key in sorted(wanted) for each in self._written(partitions.get(key, []))]
        split_bytes = self._options.split_bytes
        parts = plan(found, lambda segment: wanted[str(segment.folder)], self._files.read, split_bytes)
        return [InputPartition(task) for task in tasks(parts, split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the Arrow batches of a task.

        Raises:
            DecodeError: see `read_parts`.
            OSError: a file cannot be read.
        """
        found = read_parts(partition.value, self._files, self._read_options)
        return found if self._mapping is None else self._mapping(found)

    # Available data.

    def _partitions(self) -> _Partitions:
        found: _Partitions = {}
        for segment in self._files.find():
            if self._options.selection.has(segment.folder):
                found.setdefault(str(segment.folder), []).append(segment)
        return found

    def _available(self, partitions: _Partitions, start: dict[str, int]) -> dict[str, int]:
        """Return the ends of the partitions."""
        gone = start.keys() - partitions.keys()
        lost = {key: f"{key} no longer exists, but was to be read from offset {start[key]} onward" for key in gone}
        ends = {}
        for key, segments in partitions.items():
            begin = start.get(key, self._first(segments))
            reached = self._ends.of(segments[-1]).offset
            if reached < begin and key in start:
                lost[key] = f"{key} ends at offset {reached}, but was to be read from {begin} onward"
            ends[key] = max(self._end(segments, begin), begin)
        for key in sorted(lost.keys() - self._lost):
            self._lose(lost[key])
        self._lost = set(lost)
        return ends

    def _first(self, segments: list[FoundSegment]) -> int:
        """Return where to begin in a partition that was added after the query started."""
        return max(self._asked.named.get(segments[0].folder, EARLIEST), segments[0].start_offset)

    def _end(self, segments: list[FoundSegment], begin: int) -> int:
        """Return the offset up to which a partition can be read."""
        end = self._ends.of(segments[-1]).offset
        return self._ends.last_stable_offset(segments, begin, end) if self._options.is_committed_only else end

    def _written(self, segments: list[FoundSegment]) -> list[FoundSegment]:
        """Return a partition's segments without the preallocated space after the written bytes."""
        if not segments:
            return []
        return [*segments[:-1], segments[-1]._replace(size_bytes=self._ends.of(segments[-1]).position)]

    def _lose(self, what: str) -> None:
        report_loss(what, fails=self._fails_on_loss)

    def __getstate__(self) -> dict[str, Any]:
        # Workers only read parts; they need not know the ends.
        return {**vars(self), "_ends": PartitionEnds(self._files)}
