"""Turn batches into facts; does not need Spark.

Each batch becomes a row. Its records are read for facts that are not in the header, and are summed by key and by
minute. Memory use is limited to the records of one batch, one Arrow batch of records, and sums of limited size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.batch import recompress
from kafkawire.sdk.records.columns import OffsetRange
from kafkawire.sdk.records.compression import Compression
from kafkawire.sdk.records.control import control_type
from kafkawire.sdk.records.engine import RecordBatch
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.rows import PlainBatches, arrow_arrays, rows_builder
from kafkawire.sdk.records.sound_batches import MIN_BYTES
from kafkawire.sdk.records.stored import ZEROS, Damage
from kafkawire.sdk.spark.audit.commits import OFFSETS_TOPIC, commits
from kafkawire.sdk.spark.audit.facts import COLUMNS_OF, FactKind, fact_rows
from kafkawire.sdk.spark.audit.sums import Sums
from kafkawire.sdk.spark.damage import DamageLog, Mode, Place, damage_of, error_of
from kafkawire.sdk.spark.offset_order import first_offset

__all__ = ["FactRows", "NotedFacts"]

#: The maximum number of batch rows waiting to be written: about 4 MiB.
_BATCHES_MAX: Final = 16 * 1024

_BATCH_COLUMNS: Final = COLUMNS_OF[FactKind.BATCH]

#: The fields of a `Commit`, in order, followed by two fields of its batch.
_COMMIT_COLUMNS: Final = (
    *("lastOffset", "group", "ofTopic", "ofPartition", "committedOffset", "commitTimestampMs"),
    *("producerId", "isTransactional"),
)


class NotedFacts(NamedTuple):
    """The choice of facts to record.

    Attributes:
        mode: how damage is handled.
        reads_records: whether the records of batches are read.
        has_all_kinds: whether to record facts of every `FactKind` in the wide table, or only facts about batches in a
            separate table.
        since_ms: do not count batches whose highest timestamp is lower, and do not read their records; None for all.
        until_ms: do not count batches whose highest timestamp is this or higher; None for all.
    """

    mode: Mode = Mode.PERMISSIVE
    reads_records: bool = True
    has_all_kinds: bool = True
    since_ms: int | None = None
    until_ms: int | None = None

    def counts(self, batch: Batch) -> bool:
        """Return whether a batch is in the requested time range."""
        time_ms = batch.max_timestamp
        return (self.since_ms is None or time_ms >= self.since_ms) and (
            self.until_ms is None or time_ms < self.until_ms
        )


class FactRows:
    """Collects facts in Arrow batches; `BatchRows` for `read_into`.

    Args:
        noted: which facts to collect.
        batches_max: the maximum number of batch rows waiting to be written.

    Attributes:
        dropped: damage without a row.
    """

    takes_control = True

    def __init__(self, noted: NotedFacts, *, batches_max: int = _BATCHES_MAX) -> None:
        self.dropped = DamageLog()
        self._noted = noted
        self._batches_max = batches_max
        self._place: tuple[str | None, int | None] = None, None
        self._batches: list[dict[str, Any]] = []
        self._rows = rows_builder(("key", "value", "offset", "timestamp"))
        #: The batches whose records are in `_rows`, and the positions at which their records begin.
        self._runs: list[tuple[dict[str, Any], int]] = []
        self._sums = Sums()

    def add(
        self, place: Place, batch: Batch, position: int | None, wanted: OffsetRange = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Record a batch, and yield full Arrow batches.

        Args:
            place: the origin of the batch.
            batch: a batch of any magic with a valid checksum.
            position: its position in the file; None if it was fetched from a broker.
            wanted: which of its records have not been deleted; None for all.

        Raises:
            DecodeError: the batch is damaged, and the mode is FAILFAST.
        """
        yield from self._move(place)
        if len(self._batches) >= self._batches_max:
            yield from self._take_batches()
        start = self._rows.count
        try:
            row = _row(place, batch, position)
            row["isCounted"] = self._noted.counts(batch)
            is_opened = self._noted.reads_records and row["isCounted"] and not batch.is_control
            if wanted is not None:
                row["records"] = sum(wanted[0] <= record.offset < wanted[1] for record in batch.views())
            if is_opened:
                opened, row["plainBytes"] = _opened(batch)
                self._rows.begin(opened, wanted)
        except DecodeError as error:
            yield from self.add_damage(place, damage_of(batch, position or 0, error), first_offset(batch))
            return
        self._batches.append(row)
        if is_opened:
            self._runs.append((row, start))
            while not self._rows.fill():
                yield from self._take_rows()
                self._runs.append((row, 0))

    def add_plain(self, place: Place, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        """Do nothing, because every batch is handled separately."""
        return 0, 0

    def add_damage(self, place: Place, damage: Damage, expected: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Record bytes that are not a valid batch.

        Args:
            place: the origin of the bytes.
            damage: a description of the bytes.
            expected: the offset at which a batch should begin there; None if unknown.

        Raises:
            DecodeError: the mode is FAILFAST.
        """
        if self._noted.mode is Mode.FAILFAST:
            raise error_of(place, damage)
        if self._noted.mode is Mode.DROPMALFORMED:
            self.dropped.add(place, damage)
            return
        yield from self._note_damage(place, damage, damage.base_offset if expected is None else expected)

    def add_tail(self, place: Place, tail: Damage, expected: int) -> Iterator[pyarrow.RecordBatch]:
        """Record the bytes after the last batch of a partition, but only in the wide table; see `BatchRows`."""
        if self._noted.has_all_kinds:
            yield from self._note_damage(place, tail, expected, tail="zeros" if tail.reason == ZEROS else "cut")

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the remaining rows."""
        yield from self._finish_partition()
        yield from self._take_batches()
        self.dropped.finish()

    def _note_damage(
        self, place: Place, damage: Damage, expected: int | None, **more: str
    ) -> Iterator[pyarrow.RecordBatch]:
        yield from self._move(place)
        if len(self._batches) >= self._batches_max:
            yield from self._take_batches()
        row: dict[str, Any] = {
            "topic": place.topic,
            "partition": place.partition,
            "baseOffset": expected,
            "position": None if place.path is None else damage.position,
            "sizeBytes": damage.size_bytes,
            "path": place.path,
            "reason": damage.reason,
        }
        self._batches.append({**row, **more})

    def _move(self, place: Place) -> Iterator[pyarrow.RecordBatch]:
        """Finish the current partition if another one begins, because sums are per partition."""
        if self._place != place[:2]:
            yield from self._finish_partition()
            self._place = place[:2]

    def _finish_partition(self) -> Iterator[pyarrow.RecordBatch]:
        yield from self._take_rows()
        yield from self._sum_rows(*self._sums.take())

    def _take_batches(self) -> Iterator[pyarrow.RecordBatch]:
        yield from self._take_rows()  # these complete the rows about batches
        if self._batches:
            columns = {name: [row.get(name) for row in self._batches] for name in _BATCH_COLUMNS}
            self._batches.clear()
            yield fact_rows(FactKind.BATCH, columns, is_wide=self._noted.has_all_kinds)

    def _take_rows(self) -> Iterator[pyarrow.RecordBatch]:
        runs, self._runs = self._runs, []
        if not self._rows.count:
            return
        arrays = arrow_arrays(self._rows.take())
        times = arrays["timestamp"].cast(pyarrow.int64())
        _note_times(runs, times.to_numpy(zero_copy_only=False))
        if not self._noted.has_all_kinds:
            return
        arrays["timestamp"] = times
        self._sums.add(pyarrow.table(arrays))
        yield from self._sum_rows(*self._sums.take_full())
        if self._place[0] == OFFSETS_TOPIC:
            yield from self._note_commits(runs, [arrays[name].to_pylist() for name in ("offset", "key", "value")])

    def _note_commits(
        self, runs: list[tuple[dict[str, Any], int]], columns: list[list[Any]]
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield the commits among records, with the producer and transaction of each commit's batch."""
        ends = [*(start for _, start in runs[1:]), None]
        found = [
            (*commit, row["producerId"], row["isTransactional"])
            for (row, start), end in zip(runs, ends, strict=True)
            for commit in commits(zip(*(column[start:end] for column in columns), strict=True))
        ]
        if found:
            yield self._facts(
                FactKind.COMMIT, len(found), **dict(zip(_COMMIT_COLUMNS, zip(*found, strict=True), strict=True))
            )

    def _sum_rows(self, keys: pyarrow.Table | None, minutes: pyarrow.Table | None) -> Iterator[pyarrow.RecordBatch]:
        for kind, sums in ((FactKind.KEY, keys), (FactKind.MINUTE, minutes)):
            if sums is not None and sums.num_rows:
                yield self._facts(kind, sums.num_rows, **dict(zip(sums.schema.names, sums.columns, strict=True)))

    def _facts(self, kind: FactKind, count: int, **columns: Any) -> pyarrow.RecordBatch:
        topic, partition = self._place
        place: dict[str, Any] = {"topic": [topic] * count, "partition": [partition] * count}
        return fact_rows(kind, {**place, **columns})


def _row(place: Place, batch: Batch, position: int | None) -> dict[str, Any]:
    """Return the facts in the header of a batch.

    Raises:
        DecodeError: the header or the control record is damaged.
    """
    control = next(iter(batch.records()), None) if batch.is_control else None  # compaction may have removed it
    return {
        "topic": place.topic,
        "partition": place.partition,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "position": position,
        "sizeBytes": batch.size_in_bytes,
        "records": batch.records_count,
        "magic": batch.magic,
        "compression": batch.compression.name.lower(),
        "timestampType": None if batch.timestamp_type is None else int(batch.timestamp_type),
        "maxTimestampMs": batch.max_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "controlType": None if control is None else control_type(control).name,
        "leaderEpoch": batch.partition_leader_epoch,
        "lacksRecords": batch.last_offset - batch.base_offset + 1 > batch.records_count,
        "path": place.path,
    }


def _opened(batch: Batch) -> tuple[Batch, int]:
    """Return a batch in decompressed form, and its size; a batch of magic 2 is decompressed only once."""
    if batch.compression == Compression.NONE:
        return batch, batch.size_in_bytes
    if isinstance(batch, MessageBatch):
        records = batch.views()
        return batch, sum(MIN_BYTES[batch.magic] + len(each.key or b"") + len(each.value or b"") for each in records)
    plain = RecordBatch(recompress(batch, Compression.NONE))
    return plain, plain.size_in_bytes


def _note_times(runs: list[tuple[dict[str, Any], int]], times: numpy.ndarray[Any, numpy.dtype[numpy.int64]]) -> None:
    """Record the lowest timestamp of each batch, and how many of its records are older than a record before them.

    Args:
        runs: batches, and the positions at which their records begin.
        times: the timestamps of all records, in ms.
    """
    starts = [start for _, start in runs] + [len(times)]
    falls = numpy.flatnonzero(times[1:] < times[:-1]) + 1  # positions at which a record is older than the previous one
    for number, (row, start) in enumerate(runs):
        end = starts[number + 1]
        if end == start:
            continue
        part = times[start:end]
        lowest, before = int(part.min()), row.get("minTimestampMs")
        row["minTimestampMs"] = lowest if before is None else min(lowest, before)
        highest = row.pop("_highest", None)
        first = numpy.searchsorted(falls, start, side="right")
        has_fall = first < len(falls) and falls[first] < end
        late = 0
        if has_fall or (highest is not None and lowest < highest):
            reached = numpy.maximum.accumulate(part)
            late = int((part < (reached if highest is None else numpy.maximum(reached, highest))).sum())
        row["backwards"] = row.get("backwards", 0) + late
        row["_highest"] = int(part.max()) if highest is None else max(int(part.max()), highest)
