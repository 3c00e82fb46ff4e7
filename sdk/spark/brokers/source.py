"""The data source `kafkawire`, in the form that Spark expects.

Spark passes options and a schema to the data source, which returns tasks and Arrow batches. The code for writing is in
`sink/`. The driver plans in a separate Python process, which looks up topics and offsets at the brokers; each task
reads a range of offsets from one partition, or several small ranges.

Source: `pyspark.sql.datasource`; `KafkaSourceProvider`, `KafkaBatch` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark import schema as columns
from kafkawire.sdk.spark.brokers.cluster import Cluster
from kafkawire.sdk.spark.brokers.options import WireOptions, parse_options
from kafkawire.sdk.spark.brokers.ranges import PartitionRange, tasks
from kafkawire.sdk.spark.brokers.reading import read_options, read_ranges
from kafkawire.sdk.spark.data_loss import report_loss
from kafkawire.sdk.spark.refused_stream import RefusedStream
from kafkawire.sdk.spark.selection import EARLIEST, LATEST, Bound, Offsets, check_order

__all__ = ["KafkaWire", "KafkaWireReader"]

_FROM_EARLIEST = Bound("startingOffsets", Offsets(EARLIEST))
_TO_LATEST = Bound("endingOffsets", Offsets(LATEST))

#: The extra columns, except those that exist only in files.
_EXTRAS: Final = tuple(name for name in columns.EXTRAS if name not in columns.OF_FILES)


class KafkaWire(DataSource):
    """A data source for records fetched from brokers, and a sink for rows to be written as records.

        spark.dataSource.register(KafkaWire)
        spark.read.format("kafkawire").option("kafka.bootstrap.servers", "broker:9092").option("subscribe", "orders")

    Columns, types and options are those of Spark's Kafka connector: docs/spark_brokers.md,
    docs/spark_writing.md.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafkawire"

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
        return KafkaWireReader(options, _names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for a stream; if an option or the schema is invalid, the reader's first call fails."""
        from kafkawire.sdk.spark.brokers.stream import KafkaWireStreamReader  # needs a newer Spark than batch queries

        try:
            options = parse_options(self.options)
            options.check_stream()
            return KafkaWireStreamReader(options, _names(schema))
        except ConfigurationError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for a batch query.

        Raises:
            ConfigurationError: an option or the schema is invalid, or the query overwrites.
        """
        from kafkawire.sdk.spark.sink.writer import BatchWriter  # needs a newer Spark than reading does

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer for a stream in the output mode `append` or `complete`; `update` is for Spark's own sinks.

        Raises:
            ConfigurationError: an option or the schema is invalid.
        """
        from kafkawire.sdk.spark.sink.writer import StreamWriter  # needs a newer Spark than reading does

        return StreamWriter(self.options, schema)


class KafkaWireReader(DataSourceReader):
    """Reads a batch query.

    Args:
        options: the user's options.
        names: the column names.
    """

    def __init__(self, options: WireOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._read_options = read_options(options, names)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; see `_ranges`."""
        options = self._options
        return [InputPartition(task) for task in tasks(self._ranges(), options.tasks_min, options.task_records_max)]

    def _ranges(self) -> list[PartitionRange]:
        """Return the range to read from each partition of the query.

        Raises:
            ConfigurationError: there is no such partition, a JSON option names the wrong partitions, or the query would
                begin after its end in some partition.
            KafkaWireError: there is no such topic, or a request to the brokers failed.
        """
        cluster = Cluster(self._options)
        try:
            partitions = cluster.partitions()
            starting, ending = self._options.starting or _FROM_EARLIEST, self._options.ending or _TO_LATEST
            starts, ends = cluster.place(starting, partitions), cluster.place(ending, partitions)
        finally:
            cluster.close()
        ranges = []
        for each in partitions:
            if starts[each] > ends[each] and self._may_be_gone(starting, ending, each):
                what = f"{each}: the query would begin at offset {starts[each]}, but ends earlier, at {ends[each]}"
                report_loss(what, fails=False)
                continue
            check_order(starting, ending, each, starts[each], ends[each])
            is_earliest = isinstance(starting.place, Offsets) and starting.place.of(each) == EARLIEST
            ranges.append(PartitionRange(each, starts[each], ends[each], is_earliest))
        return ranges

    def _may_be_gone(self, starting: Bound, ending: Bound, partition: TopicPartition) -> bool:
        """Return whether the query may begin after its end in a partition even though the options are valid."""
        asked = [bound.place.of(partition) for bound in (starting, ending) if isinstance(bound.place, Offsets)]
        return not self._options.fails_on_loss and not all(offset >= 0 for offset in asked)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the Arrow batches of a task.

        Raises:
            KafkaWireError: see `read_ranges`.
        """
        wanted: Sequence[PartitionRange] = partition.value or ()  # without tasks, Spark creates an empty one
        return read_ranges(wanted, self._read_options)


def _names(schema: StructType) -> tuple[str, ...]:
    names = columns.names_of(schema, (*columns.CONNECTOR, columns.HEADERS, *_EXTRAS))
    if columns.CORRUPT in names:
        raise ConfigurationError("schema", columns.CORRUPT, "only available when files are read")
    if of_files := [name for name in names if name in columns.OF_FILES]:
        raise ConfigurationError("schema", of_files[0], "only available when files are read")
    return names
