"""The data source `kafka_segments`, in the form that Spark expects.

Spark passes options and a schema to the data source, which returns tasks and Arrow batches. Spark's driver plans each
query in a separate Python process, and the input for tasks is pickled. Spark has no column pruning for Python sources,
so users who want only some columns name them in a schema.

Source: `pyspark.sql.datasource`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark import schema as columns
from kafkawire.sdk.spark.data_loss import begins_later, report_loss
from kafkawire.sdk.spark.refused_stream import RefusedStream
from kafkawire.sdk.spark.segments.end_offsets import PartitionEnds
from kafkawire.sdk.spark.segments.files import FoundSegment, nothing_found, packed_names
from kafkawire.sdk.spark.segments.listing import ListedFile
from kafkawire.sdk.spark.segments.mapping import MapBatches, mapped
from kafkawire.sdk.spark.segments.options import SegmentOptions, parse_options
from kafkawire.sdk.spark.segments.plan import SegmentPart, Wanted, plan, tasks
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_options, read_parts
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.spark.selection import EARLIEST, LATEST

if TYPE_CHECKING:
    from kafkawire.sdk.spark.segments.pushdown import PushedFilters

__all__ = ["FilteredSegmentReader", "KafkaSegments", "SegmentReader"]

_log = logging.getLogger("kafkawire.spark")


class KafkaSegments(DataSource):
    """A data source for the records in log segments from a broker, its backup or a snapshot.

        spark.dataSource.register(KafkaSegments)
        spark.read.format("kafka_segments").load("/var/lib/kafka/data")

    Columns and types are those of Spark's Kafka connector; docs/spark_segments.md describes the options.
    """

    #: Set by `read_segments`: the function that workers apply to each Arrow batch, and the columns passed to it.
    map_batches: ClassVar[MapBatches | None] = None
    map_columns: ClassVar[tuple[str, ...] | None] = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_segments"

    def schema(self) -> str:
        """Return the columns for queries without a schema from the user.

        Raises:
            ConfigurationError: an option is invalid.
        """
        return columns.ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for a batch query.

        Raises:
            ConfigurationError: an option or the schema is invalid.
        """
        options = parse_options(self.options)
        options.check_batch()
        names, mapping = self._columns(schema, options)
        # Spark refuses a reader that accepts filters unless spark.sql.python.filterPushdown.enabled is set.
        kind = FilteredSegmentReader if options.pushdown else SegmentReader
        return kind(options, read_options(options, names, options.fails_batch_on_loss), mapping)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for a stream; if an option or the schema is invalid, the reader's first call fails."""
        from kafkawire.sdk.spark.segments.stream import SegmentStreamReader  # needs a newer Spark than batch queries

        try:
            options = parse_options(self.options)
            options.check_stream()
            names, mapping = self._columns(schema, options)
            return SegmentStreamReader(options, names, mapping)
        except ConfigurationError as error:
            return RefusedStream(error)

    def _columns(
        self, schema: StructType, options: SegmentOptions
    ) -> tuple[tuple[str, ...], Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]] | None]:
        """Return the columns to read, and the function that turns them into the result of a query."""
        function = type(self).map_batches  # accessed through an instance, the function would be a method
        if function is not None:
            options.check_mapped()
            names = options.columns if self.map_columns is None else self.map_columns
            return names, mapped(function, schema)
        return columns.names_of(schema), None


class SegmentReader(DataSourceReader):
    """Reads a batch query.

    Args:
        options: the user's options.
        read_options: the options for reading parts.
        mapping: the function to apply to the Arrow batches; None for none.

    Raises:
        ConfigurationError: a path is invalid.
    """

    def __init__(
        self,
        options: SegmentOptions,
        read_options: ReadOptions,
        mapping: Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]] | None = None,
    ) -> None:
        self._options = options
        self._read_options = read_options
        self._mapping = mapping
        self._files = SegmentFiles(options.paths, options.path_pattern)

    def wanted(self, segment: FoundSegment) -> Wanted | None:
        """Return the wanted records of a segment's partition; None for none."""
        return self._options.wanted(segment)

    def check_found(self, segments: Sequence[FoundSegment], listed: Iterable[ListedFile]) -> None:
        """Raise an error if there are no segments, and log a warning about other files that may contain some.

        Args:
            segments: all segments found.
            listed: the files listed.

        Raises:
            ConfigurationError: there are no segments.
        """
        if not segments:
            raise nothing_found(", ".join(self._options.paths), listed)
        if names := packed_names(file.path for file in listed):
            _log.warning("not read, although they may contain segments: %s", names)

    def check_there(self, segments: Iterable[FoundSegment]) -> None:
        """Refuse named topics or partitions without a segment; see `SegmentOptions.check_there`."""
        self._options.check_there(segments)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks.

        Raises:
            ConfigurationError: a path, or a named topic or partition, does not exist.
            LocalProtocolError: requested offsets are gone, and the options make that an error.
            OSError: a folder cannot be listed, or an index cannot be read.
        """
        split_bytes = self._options.split_bytes
        found, listed = self._files.look()
        segments = [segment for segment in found if not segment.is_deleted]
        self.check_found(found, listed)
        self.check_there(segments)
        if not self._read_options.logs_loss:
            self._check_loss(segments)
        parts = plan(segments, self.wanted, self._files.read, split_bytes)
        return [InputPartition(task) for task in tasks(parts, split_bytes)]

    def _check_loss(self, segments: Iterable[FoundSegment]) -> None:
        """Check that the offsets requested by number exist.

        Raises:
            LocalProtocolError: some do not exist, and the options make that an error.
            OSError: a segment cannot be read.
        """
        options, fails = self._options, self._read_options.fails_on_loss
        firsts: dict[TopicPartition, FoundSegment] = {}
        lasts: dict[TopicPartition, FoundSegment] = {}
        for segment in segments:
            firsts.setdefault(segment.folder, segment)
            lasts[segment.folder] = segment
        starts = {} if options.starting_offsets is None else options.starting_offsets.named
        ends = {} if options.ending_offsets is None else options.ending_offsets.named
        for folder in sorted({*starts, *ends}):
            start, end = starts.get(folder, EARLIEST), ends.get(folder, LATEST)
            if folder not in lasts:
                report_loss(f"{folder} does not exist, but its offsets are requested", fails=fails)
                continue
            first = firsts[folder].start_offset
            if 0 <= start < first:
                report_loss(begins_later(folder, start, first), fails=fails)
            behind = max(start, end)
            if behind > 0 and (reached := PartitionEnds(self._files).of(lasts[folder]).offset) < behind:
                what = f"{folder} ends at offset {reached}, but offsets up to {behind - 1} are requested"
                report_loss(what, fails=fails)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the Arrow batches of a task.

        Raises:
            DecodeError: see `read_parts`.
            OSError: a file cannot be read.
        """
        parts: Iterable[SegmentPart] = partition.value or ()  # without tasks, Spark creates an empty one
        found = read_parts(parts, self._files, self._read_options)
        return found if self._mapping is None else self._mapping(found)


class FilteredSegmentReader(SegmentReader):
    """Reads a batch query for which Spark passes any filters."""

    _pushed: PushedFilters | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Apply filters, and return those that Spark still has to apply."""
        from kafkawire.sdk.spark.segments.pushdown import pushed  # needs a newer Spark than other queries

        self._pushed, left = pushed(filters)
        return left

    def wanted(self, segment: FoundSegment) -> Wanted | None:
        """Return the wanted records that remain after filtering."""
        wanted = super().wanted(segment)
        return wanted if self._pushed is None else self._pushed.narrowed(segment.folder, wanted)
