"""The data source `kafka_segments` as Spark knows it: options and schema in, tasks and Arrow batches out.

Spark's driver plans, in a Python process of its own for each query; what a task gets is pickled. Spark has no column
pruning for sources in Python, so users who want few columns name them in a schema.

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
    from kafkawire.sdk.spark.segments.pushdown import Pushed

__all__ = ["FilteredSegmentReader", "KafkaSegments", "SegmentReader"]

_log = logging.getLogger("kafkawire.spark")


class KafkaSegments(DataSource):
    """Records in the log segments of a broker, its backup or a snapshot.

        spark.dataSource.register(KafkaSegments)
        spark.read.format("kafka_segments").load("/var/lib/kafka/data")

    Names and types of the columns are those of Spark's Kafka connector; options are in docs/spark_segments.md.
    """

    #: Set by `read_segments`: what workers do with each Arrow batch, and the columns that it has before.
    map_batches: ClassVar[MapBatches | None] = None
    map_columns: ClassVar[tuple[str, ...] | None] = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_segments"

    def schema(self) -> str:
        """Return the columns that there are if nobody gives a schema.

        Raises:
            ConfigurationError: an option cannot be used.
        """
        return columns.ddl(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch query.

        Raises:
            ConfigurationError: an option, or the schema, cannot be used.
        """
        options = parse_options(self.options)
        options.check_batch()
        names, mapping = self._columns(schema, options)
        # Spark refuses a reader that takes filters unless spark.sql.python.filterPushdown.enabled is set.
        kind = FilteredSegmentReader if options.pushdown else SegmentReader
        return kind(options, read_options(options, names, options.fails_batch_on_loss), mapping)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads a stream, or raises at its first call why an option, or the schema, cannot be used."""
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
        """Return the columns that are read, and what makes of them what a query gets."""
        function = type(self).map_batches  # from an instance it would be a method
        if function is not None:
            options.check_mapped()
            names = options.columns if self.map_columns is None else self.map_columns
            return names, mapped(function, schema)
        return columns.names_of(schema), None


class SegmentReader(DataSourceReader):
    """Reads a batch query.

    Args:
        options: what the user asks for.
        read_options: how parts are read.
        mapping: what is done with the Arrow batches, None for nothing.

    Raises:
        ConfigurationError: a path cannot be used.
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
        """Return what is wanted of a segment's partition; None for nothing."""
        return self._options.wanted(segment)

    def check_found(self, segments: Sequence[FoundSegment], listed: Iterable[ListedFile]) -> None:
        """Refuse paths without a segment, and warn of files beside segments that may hold some.

        Args:
            segments: all that were found.
            listed: the files among which they were found.

        Raises:
            ConfigurationError: there are none.
        """
        if not segments:
            raise nothing_found(", ".join(self._options.paths), listed)
        if names := packed_names(file.path for file in listed):
            _log.warning("not read, they may hold segments: %s", names)

    def check_there(self, segments: Iterable[FoundSegment]) -> None:
        """Refuse topics or partitions that are named and have no segment; see `SegmentOptions.check_there`."""
        self._options.check_there(segments)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks.

        Raises:
            ConfigurationError: a path, or a topic or partition that is named, does not exist.
            LocalProtocolError: offsets that are asked for are gone, and that is an error.
            OSError: a folder cannot be listed, or an index not be read.
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
        """Notice offsets that are asked for by number and are not there.

        Raises:
            LocalProtocolError: they are not, and that is an error.
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
                report_loss(f"{folder} is not there, and its offsets are asked for", fails=fails)
                continue
            first = firsts[folder].start_offset
            if 0 <= start < first:
                report_loss(begins_later(folder, start, first), fails=fails)
            behind = max(start, end)
            if behind > 0 and (reached := PartitionEnds(self._files).of(lasts[folder]).offset) < behind:
                what = f"{folder} ends at offset {reached}, and offsets up to {behind - 1} are asked for"
                report_loss(what, fails=fails)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the Arrow batches of a task.

        Raises:
            DecodeError: see `read_parts`.
            OSError: a file cannot be read.
        """
        parts: Iterable[SegmentPart] = partition.value or ()  # Spark makes a task of nothing if there is none
        found = read_parts(parts, self._files, self._read_options)
        return found if self._mapping is None else self._mapping(found)


class FilteredSegmentReader(SegmentReader):
    """Reads a batch query whose filters Spark hands over, if there are some."""

    _pushed: Pushed | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take account of filters, and return those that Spark still has to apply."""
        from kafkawire.sdk.spark.segments.pushdown import pushed  # needs a newer Spark than other queries

        self._pushed, left = pushed(filters)
        return left

    def wanted(self, segment: FoundSegment) -> Wanted | None:
        """Return what is left for the filters."""
        wanted = super().wanted(segment)
        return wanted if self._pushed is None else self._pushed.narrowed(segment.folder, wanted)
