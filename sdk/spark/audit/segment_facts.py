"""The audit's data sources for segments: one for batches, and one for all facts about them.

Both read segments as `kafka_segments` does, with its options. Instead of a row per record, they return a row per batch,
or the wide table of `facts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.audit.fact_rows import FactRows, NotedFacts
from kafkawire.sdk.spark.audit.facts import FactKind, fact_ddl
from kafkawire.sdk.spark.damage import Mode
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.listing import ListedFile
from kafkawire.sdk.spark.segments.options import SegmentOptions, parse_options
from kafkawire.sdk.spark.segments.plan import SegmentPart, Wanted
from kafkawire.sdk.spark.segments.reading import read_into, read_options
from kafkawire.sdk.spark.segments.source import SegmentReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["AuditFacts", "FactReader", "KafkaBatches", "OpenedBatches", "read_source"]


class KafkaBatches(DataSource):
    """A row per batch in a broker's log segments, from the batch headers.

    Attributes:
        noted: which facts to record, regardless of the time range.
        mode: how damage is handled; None if the user decides.
        logs_loss: whether files that are removed during the query are only logged, and never become a row.
    """

    noted = NotedFacts(reads_records=False, has_all_kinds=False)
    mode: Mode | None = None
    logs_loss = False

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_batches"

    def schema(self) -> str:
        """Return the columns."""
        return fact_ddl(FactKind.BATCH)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a query.

        Raises:
            ConfigurationError: an option is invalid.
        """
        options = parse_options(self.options)
        options.check_batch()
        if options.is_committed_only or options.pushdown:
            option = "isolationLevel" if options.is_committed_only else "pushdown"
            raise ConfigurationError(option, self.options.get(option), "only supported when records are read")
        mode = self.mode or options.mode
        noted = self.noted._replace(
            mode=mode, since_ms=options.starting_timestamp_ms, until_ms=options.ending_timestamp_ms
        )
        return FactReader(options._replace(mode=mode), noted, logs_loss=self.logs_loss)


class OpenedBatches(KafkaBatches):
    """A row per batch, with further facts that only the batch's records reveal."""

    noted = KafkaBatches.noted._replace(reads_records=True)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_batches_opened"


class AuditFacts(KafkaBatches):
    """The wide table of all facts.

    Damage is always included. Records that retention removed while the audit was running are not, because they would
    remain in the tables as damage when a later audit continues this one.
    """

    noted = NotedFacts()
    mode = Mode.PERMISSIVE
    logs_loss = True

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_audit_facts"

    def schema(self) -> str:
        """Return the columns."""
        return fact_ddl()


class FactReader(SegmentReader):
    """Reads facts from segments.

    Args:
        options: the user's options.
        noted: which facts to note.
        logs_loss: whether files that are removed during the query are only logged, and never become a row.

    Raises:
        ConfigurationError: a path is invalid.
    """

    def __init__(self, options: SegmentOptions, noted: NotedFacts, *, logs_loss: bool) -> None:
        reads = read_options(options, (), options.fails_batch_on_loss)._replace(logs_loss=logs_loss)
        super().__init__(options, reads)
        self._noted = noted

    def check_found(self, segments: Sequence[FoundSegment], listed: Iterable[ListedFile]) -> None:
        """Accept paths without segments if an earlier audit has read them, since it knows their former content."""
        if not self._noted.has_all_kinds:
            super().check_found(segments, listed)

    def check_there(self, segments: Iterable[FoundSegment]) -> None:
        """Accept topics without a segment if an earlier audit has read them, since it knows their former content."""
        if not self._noted.has_all_kinds:
            super().check_there(segments)

    def wanted(self, segment: FoundSegment) -> Wanted | None:
        """Return a partition's wanted offsets, regardless of time, because omitted offsets would look like a gap."""
        wanted = super().wanted(segment)
        return None if wanted is None else wanted._replace(start_timestamp_ms=None, end_timestamp_ms=None)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the facts of a task.

        Raises:
            DecodeError: data is damaged, and the mode is FAILFAST.
            OSError: a file cannot be read.
        """
        parts: Iterable[SegmentPart] = partition.value or ()
        return read_into(FactRows(self._noted), parts, self._files, self._read_options)


def read_source(spark: SparkSession, source: type[DataSource], options: dict[str, str]) -> DataFrame:
    """Return what a data source reads, given its options."""
    spark.dataSource.register(source)
    return spark.read.format(source.name()).options(**options).load()
