"""The writers that Spark calls: one for queries, and one for streams.

`write` runs in the tasks, and `commit` and `abort` run in the driver, each in a separate Python process. Only the
messages carry state between them.

Source: `pyspark.sql.datasource`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

import pyarrow
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.sink.columns import checked_columns
from kafkawire.sdk.spark.sink.options import parse_options
from kafkawire.sdk.spark.sink.sending import write
from kafkawire.sdk.spark.sink.task import current_task
from kafkawire.sdk.spark.sink.transactions import Prepared, abort, commit, prepare

__all__ = ["BatchWriter", "StreamWriter", "Written"]

_Messages = Iterable[WriterCommitMessage | None]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's message to the driver.

    Attributes:
        prepared: the transaction that the driver must commit; None if there are no transactions.
    """

    prepared: Prepared | None = None


class _Sink:
    """The part common to both writers.

    Args:
        options: the options from Spark.
        schema: the schema of the query.
        query_id: the id of a batch query; None for a stream.

    Raises:
        ConfigurationError: an option or the schema is invalid.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, query_id: str | None) -> None:
        self._options = parse_options(options)
        self._columns = checked_columns(schema, self._options.topic)
        self._query_id = query_id

    def write(self, batches: Iterable[pyarrow.RecordBatch]) -> Written:
        """Write the rows of a task.

        Raises:
            KafkaWireError: see `sending.write` and `transactions.prepare`.
        """
        options = self._options
        if options.transactional_id_prefix is not None:
            return Written(prepare(options, self._columns, current_task(self._query_id), batches))
        write(options, self._columns, current_task(self._query_id) if options.has_row_ids else None, batches)
        return Written()

    def commit(self, messages: _Messages) -> None:
        """Commit the transactions that the tasks have prepared.

        Raises:
            KafkaWireError: see `transactions.commit`.
        """
        commit(self._options, _prepared(messages))

    def abort(self, messages: _Messages) -> None:
        """Abort the transactions that the tasks have prepared."""
        abort(self._options, _prepared(messages))


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch query.

    Args:
        options: the options from Spark.
        schema: the schema of the query.
        overwrite: whether the query should replace existing data.

    Raises:
        ConfigurationError: an option or the schema is invalid, or the query overwrites.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool = False) -> None:
        if overwrite:
            raise ConfigurationError("mode", "overwrite", "records can only be appended to topics: use append")
        self._sink = _Sink(options, schema, str(uuid4()))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task; see `_Sink.write`."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Finish a query whose tasks have succeeded; see `_Sink.commit`."""
        self._sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Finish a query that has failed."""
        self._sink.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream.

    Args:
        options: the options from Spark.
        schema: the schema of the query.

    Raises:
        ConfigurationError: an option or the schema is invalid.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._sink = _Sink(options, schema, None)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task; see `_Sink.write`."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Finish a micro-batch whose tasks have succeeded; see `_Sink.commit`."""
        self._sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Finish a micro-batch that has failed."""
        self._sink.abort(messages)


def _prepared(messages: _Messages) -> list[Prepared]:
    """Return the reports of the tasks; failed tasks have none."""
    return [each.prepared for each in messages if isinstance(each, Written) and each.prepared is not None]
