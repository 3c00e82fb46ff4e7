"""Topics as a stream, with the offsets in Spark's checkpoint.

A query's offset contains the next offset of each partition, as `[topic][partition]`, in the connector's format, which
lets listeners read the progress of queries. A partition added later is read from its beginning; a removed one is
omitted and treated as a loss.

Source: `KafkaMicroBatchStream`, `KafkaOffsetReaderAdmin` in Apache Spark; `pyspark.sql.streaming.datasource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.brokers.cluster import Cluster, Positions
from kafkawire.sdk.spark.brokers.options import TRIGGER_DELAY_MS, WireOptions
from kafkawire.sdk.spark.brokers.ranges import PartitionRange, tasks
from kafkawire.sdk.spark.brokers.reading import read_options, read_ranges
from kafkawire.sdk.spark.data_loss import report_loss
from kafkawire.sdk.spark.offset_limits import limited_by_offsets
from kafkawire.sdk.spark.selection import LATEST, Bound, Offsets

__all__ = ["KafkaWireStreamReader"]

#: Offsets in the form used in checkpoints and in the progress of queries, `[topic][partition]`.
Named = dict[str, dict[str, int]]

_FROM_LATEST = Bound("startingOffsets", Offsets(LATEST))


class KafkaWireStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream.

    Args:
        options: the user's options.
        names: the column names.
    """

    def __init__(self, options: WireOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._read_options = read_options(options, names)
        self._cluster = Cluster(options)
        #: Where the query ends if it reads only the data available now.
        self._target: Positions | None = None
        self._reported: Named | None = None
        #: Partitions that the query has read but that no longer exist.
        self._gone: set[TopicPartition] = set()
        #: When the last micro-batch was planned; None before the first, which does not wait.
        self._planned_ms: int | None = None

    # Start and end.

    def initialOffset(self) -> Named:
        """Return where a new query begins.

        Raises:
            ConfigurationError: there is no such partition, a JSON option names the wrong partitions, or no record is
                recent enough.
            KafkaWireError: there is no such topic, or a request to the brokers failed.
        """
        return _named(self._cluster.place(self._options.starting or _FROM_LATEST, self._cluster.partitions()))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit for a micro-batch; Spark accepts only one limit, so `latestOffset` applies the minimum."""
        if self._options.trigger_offsets_max is not None:
            return ReadMaxRows(self._options.trigger_offsets_max)
        if self._options.trigger_offsets_min is not None:
            return ReadMinRows(self._options.trigger_offsets_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Named, limit: ReadLimit) -> Named:
        """Return where the next micro-batch ends.

        Args:
            start: where it begins.
            limit: its maximum size.

        Raises:
            KafkaWireError: there is no such topic, or a request to the brokers failed.
        """
        begins = _positions(start)
        ends = self._target
        if ends is None or any(begin > ends.get(each, -1) for each, begin in begins.items()):
            # The target may be before the start, or may come from a leader that did not yet know the offsets of the
            # previous micro-batch.
            ends = self._cluster.latest(self._cluster.partitions({*begins, *self._gone}), begins)
            if self._target is not None:
                self._target = ends
        self._reported = _named(ends)
        if isinstance(limit, ReadAllAvailable):
            return self._reported
        added = self._cluster.earliest([each for each in ends if each not in begins])
        begins = {**added, **begins}
        ranges = {each: (begins[each], end) for each, end in ends.items() if begins[each] < end}
        if self._is_too_little(sum(end - begin for begin, end in ranges.values())):
            return start
        if isinstance(limit, ReadMaxRows):
            return _named({**ends, **limited_by_offsets(ranges, limit.max_rows)})
        return self._reported

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the end of a query that reads only the data available now.

        Raises:
            KafkaWireError: there is no such topic, or a request to the brokers failed.
        """
        # Partitions that the stream has read but that no longer exist are treated as lost later, because at this point
        # it is unknown which partitions the stream has read.
        self._target = self._cluster.latest(self._cluster.partitions(self._options.selection.partitions or ()))

    def reportLatestOffset(self) -> Named | None:
        """Return the end of each partition at the time when the last micro-batch was planned."""
        return self._reported

    def stop(self) -> None:
        """Disconnect."""
        self._cluster.close()

    # Reading.

    def partitions(self, start: Named, end: Named) -> list[InputPartition]:
        """Return the tasks of a micro-batch.

        Raises:
            LocalProtocolError: records are missing, and the options make that an error.
            KafkaWireError: a request to the brokers failed.
        """
        begins, ends = _positions(start), _positions(end)
        there = set(self._cluster.partitions({*begins, *ends, *self._gone}))
        self._gone.update(begins.keys() - there)
        for partition in sorted(begins.keys() - ends.keys()):
            self._lose(f"{partition} no longer exists, but was to be read from offset {begins[partition]} onward")
        added = self._cluster.earliest([each for each in ends if each not in begins and each in there])
        ranges = []
        for partition, until in ends.items():
            begin = begins.get(partition, added.get(partition, 0))
            if partition in added and added[partition] > 0:
                self._lose(f"{partition} is new and begins at offset {added[partition]} instead of 0")
            if until < begin:
                self._lose(f"{partition} ends at offset {until}, but was to be read from {begin} onward")
            elif begin < until and partition not in there:
                self._lose(f"{partition} no longer exists, but was to be read from offset {begin} to {until}")
            else:
                ranges.append(PartitionRange(partition, begin, until))
        options = self._options
        return [InputPartition(task) for task in tasks(ranges, options.tasks_min, options.task_records_max)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the Arrow batches of a task.

        Raises:
            KafkaWireError: see `read_ranges`.
        """
        return read_ranges(partition.value, self._read_options)

    def _is_too_little(self, available: int) -> bool:
        """Return whether a micro-batch should wait for more; it never does if the query reads only available data."""
        least, delay_ms, now_ms = self._options.trigger_offsets_min, self._options.trigger_delay_max_ms, monotonic_ms()
        waits = (
            least is not None
            and self._target is None
            and available < least
            and self._planned_ms is not None
            and now_ms - self._planned_ms < (TRIGGER_DELAY_MS if delay_ms is None else delay_ms)
        )
        if not waits:
            self._planned_ms = now_ms
        return waits

    def _lose(self, what: str) -> None:
        report_loss(what, fails=self._options.fails_on_loss)

    def __getstate__(self) -> dict[str, Any]:
        # Workers only read ranges; they look nothing up.
        return {**vars(self), "_cluster": Cluster(self._options)}


def _named(positions: Mapping[TopicPartition, int]) -> Named:
    """Return offsets in the form used in checkpoints, sorted to give equal offsets equal text."""
    named: Named = {}
    for partition, offset in sorted(positions.items()):
        named.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return named


def _positions(named: Mapping[str, Mapping[str, int] | int]) -> Positions:
    """Return offsets from a checkpoint; in older checkpoints, keys may have the form `topic-partition`."""
    found = {}
    for name, offsets in named.items():
        if isinstance(offsets, int):
            topic, _, number = name.rpartition("-")
            found[TopicPartition(topic, int(number))] = offsets
        else:
            found.update({TopicPartition(name, int(number)): offset for number, offset in offsets.items()})
    return found
