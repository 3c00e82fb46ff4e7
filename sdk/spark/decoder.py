"""From batches, and bytes that are none, to Arrow batches with the columns that Spark gets.

Rows of many batches, files and values share an Arrow batch; whatever a batch holds, an Arrow batch has about
`ROWS_BYTES_MAX`. What all records of a batch have in common is written once for each run of batches, and spread over
the rows by Arrow.

Source: `KafkaRecordToRowConverter` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow
import pyarrow.compute

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.columns import OffsetRange
from kafkawire.sdk.records.rows import ROWS_BYTES_MAX, ROWS_MAX, arrow_arrays, rows_builder
from kafkawire.sdk.records.stored import Damage
from kafkawire.sdk.spark.damage import DamageLog, Mode, Place, error_of
from kafkawire.sdk.spark.schema import CORRUPT, arrow_schema

__all__ = ["Decoder"]

#: Columns that a record has by itself.
_OF_RECORDS = frozenset({"key", "value", "offset", "timestamp", "headers"})

#: NO_TIMESTAMP_TYPE of Kafka's consumer: magic 0 has no timestamps.
_NO_TIMESTAMP_TYPE = -1

#: Sequence numbers begin again at 0 after the highest int32.
_SEQUENCES = 2**31

_INT64_MAX = 2**63 - 1

#: Most of its functions are made when it is imported, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute


class _Run(NamedTuple):
    """Rows of one batch. The batch itself would keep a whole window of its file in memory.

    Attributes:
        end: after the last of them, in rows of the Arrow batch.
        place: where the batch is.
        position: where it begins in the file or value, None if it is in neither.
        base_offset: of the batch, if its header says so.
        held: what it has in each column that is the same for all its records.
    """

    end: int
    place: Place
    position: int | None
    base_offset: int | None
    held: tuple[Any, ...]


#: What each column of a batch holds, the same for all its records: of its place, itself and its position.
_OF_BATCHES: dict[str, Callable[[Place, Batch, int | None], Any]] = {
    "topic": lambda place, batch, position: place.topic,
    "partition": lambda place, batch, position: place.partition,
    "timestampType": lambda place, batch, position: (
        _NO_TIMESTAMP_TYPE if batch.timestamp_type is None else int(batch.timestamp_type)
    ),
    "leaderEpoch": lambda place, batch, position: batch.partition_leader_epoch,
    "producerId": lambda place, batch, position: batch.producer_id,
    "producerEpoch": lambda place, batch, position: batch.producer_epoch,
    "sequence": lambda place, batch, position: batch.base_sequence,
    "isTransactional": lambda place, batch, position: batch.is_transactional,
    "compression": lambda place, batch, position: batch.compression.name.lower(),
    "batchOffset": lambda place, batch, position: _base_offset(batch),
    "batchPosition": lambda place, batch, position: position,
    "path": lambda place, batch, position: place.path,
}


class Decoder:
    """Arrow batches that grow.

    Args:
        names: of the columns, in order; see `schema.py`.
        mode: what becomes of damage. PERMISSIVE needs the column for it, or drops it.
        rows_max: most rows of an Arrow batch.
        bytes_max: most bytes of its keys, values and headers, unless one record has more.

    Attributes:
        dropped: what was left out without a row.
    """

    #: As in the connector, see `Sink`.
    takes_control = False

    def __init__(
        self, names: Sequence[str], mode: Mode, *, rows_max: int = ROWS_MAX, bytes_max: int = ROWS_BYTES_MAX
    ) -> None:
        self.dropped = DamageLog()
        self._names = tuple(names)
        self._schema = arrow_schema(names)
        self._mode = mode
        wanted = _OF_RECORDS.intersection(names)
        if "sequence" in names:
            wanted |= {"offset"}
        self._rows = rows_builder(wanted, rows_max=rows_max, bytes_max=bytes_max)
        #: The columns that a batch has, and what gives them.
        held = [name for name in _OF_BATCHES if name in names or (name == "batchOffset" and "sequence" in names)]
        self._held = {name: number for number, name in enumerate(held)}
        self._values = [_OF_BATCHES[name] for name in held]
        self._runs: list[_Run] = []
        self._corrupt: list[tuple[Place, Damage]] = []

    def add(
        self, place: Place, batch: Batch, position: int | None, wanted: OffsetRange = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Add the records of a batch, and yield what is full.

        Args:
            place: where it is.
            batch: of any magic, with its checksum compared, and no control batch.
            position: where it begins in the file or value; None if it was fetched from a broker.
            wanted: which records are wanted; None for all.

        Raises:
            DecodeError: it is damaged, and the mode is FAILFAST.
        """
        try:
            self._rows.begin(batch, wanted)
        except DecodeError as error:
            yield from self.add_damage(place, _damage_of(batch, position, error))
            return
        held = tuple(value_of(place, batch, position) for value_of in self._values)
        run = _Run(0, place, position, _base_offset(batch), held)
        while not self._rows.fill():
            yield from self._take(run._replace(end=self._rows.count))
        self._runs.append(run._replace(end=self._rows.count))

    def add_damage(self, place: Place, damage: Damage) -> Iterator[pyarrow.RecordBatch]:
        """Add bytes that are no records.

        Raises:
            DecodeError: the mode is FAILFAST.
        """
        if self._mode is Mode.FAILFAST:
            raise error_of(place, damage)
        if self._mode is Mode.PERMISSIVE and CORRUPT in self._names:
            self._corrupt.append((place, damage))
            if len(self._corrupt) == ROWS_MAX:
                yield self._take_corrupt()
        else:
            self.dropped.add(place, damage)

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield what is left."""
        if self._rows.count:
            yield from self._take(None)
        if self._corrupt:
            yield self._take_corrupt()
        self.dropped.finish()

    def _take(self, last: _Run | None) -> Iterator[pyarrow.RecordBatch]:
        runs, self._runs = self._runs, []
        if last is not None:
            runs.append(last)
        count = self._rows.count
        arrays = arrow_arrays(self._rows.take())
        for name in self._names:
            if name in _OF_BATCHES:
                arrays[name] = _spread(self._held[name], self._schema.field(name).type, runs, count)
            elif name == CORRUPT:
                arrays[name] = pyarrow.nulls(count, self._schema.field(name).type)
        if "sequence" in self._names:
            first = _spread(self._held["batchOffset"], pyarrow.int64(), runs, count)
            arrays["sequence"] = _sequences(arrays["sequence"], arrays["offset"], first)
        if "timestamp" in self._names:
            milliseconds = arrays["timestamp"].cast(pyarrow.int64())
            arrays["timestamp"], outside = _in_microseconds(milliseconds)
            for row in outside:
                run = next(run for run in runs if row < run.end)
                reason = f"timestamp {milliseconds[row]} of a record is outside what Spark can hold"
                yield from self.add_damage(run.place, Damage(run.position or 0, 0, reason, run.base_offset))
        yield pyarrow.RecordBatch.from_arrays([arrays[name] for name in self._names], schema=self._schema)

    def _take_corrupt(self) -> pyarrow.RecordBatch:
        corrupt, self._corrupt = self._corrupt, []
        rows = [
            {
                "topic": place.topic,
                "partition": place.partition,
                CORRUPT: {
                    "path": place.path,
                    "position": damage.position,
                    "size": damage.size_bytes,
                    "reason": damage.reason,
                },
            }
            for place, damage in corrupt
        ]
        return pyarrow.RecordBatch.from_pylist(rows, schema=self._schema)


def _damage_of(batch: Batch, position: int | None, error: DecodeError) -> Damage:
    return Damage(position or 0, batch.size_in_bytes, f"{error.path}: {error.reason}", _base_offset(batch))


def _base_offset(batch: Batch) -> int | None:
    """Return the first offset of a batch, None if its header does not say it."""
    return batch.base_offset if batch.magic == BATCH_MAGIC else None


def _spread(number: int, kind: pyarrow.DataType, runs: Sequence[_Run], count: int) -> pyarrow.Array:
    """Return a column of what the batches hold."""
    values = [run.held[number] for run in runs]
    if values.count(values[0]) == len(values):
        return pyarrow.repeat(pyarrow.scalar(values[0], kind), count)
    # A batch whose records were all left out, or went into the Arrow batch before, has no rows of its own.
    kept = [index for index, run in enumerate(runs) if run.end > (runs[index - 1].end if index else 0)]
    ends = pyarrow.array([runs[index].end for index in kept], pyarrow.int32())
    spread = pyarrow.RunEndEncodedArray.from_arrays(ends, pyarrow.array([values[index] for index in kept], kind))
    return _COMPUTE.run_end_decode(spread)


def _in_microseconds(milliseconds: pyarrow.Array) -> tuple[pyarrow.Array, list[int]]:
    """Return timestamps as Spark has them, and the rows of those that it cannot have, which are null."""
    kind = pyarrow.timestamp("us", "UTC")
    try:
        return milliseconds.cast(pyarrow.timestamp("ms", "UTC")).cast(kind), []
    except pyarrow.ArrowInvalid:
        limit = _INT64_MAX // 1000
        fits = [abs(number) <= limit for number in milliseconds.to_pylist()]
        numbers = [number if fit else None for number, fit in zip(milliseconds.to_pylist(), fits, strict=True)]
        found = pyarrow.array(numbers, pyarrow.timestamp("ms", "UTC")).cast(kind)
        return found, [row for row, fit in enumerate(fits) if not fit]


def _sequences(first: pyarrow.Array, offsets: pyarrow.Array, first_offsets: pyarrow.Array) -> pyarrow.Array:
    """Return the sequence number of each record, from that of the first one in its batch."""
    if _COMPUTE.max(first).as_py() == NO_SEQUENCE:
        return first
    numbers = _COMPUTE.add(
        first.cast(pyarrow.int64()), _COMPUTE.subtract(offsets, _COMPUTE.coalesce(first_offsets, offsets))
    )
    around = _COMPUTE.if_else(
        _COMPUTE.greater_equal(numbers, _SEQUENCES), _COMPUTE.subtract(numbers, _SEQUENCES), numbers
    )
    return _COMPUTE.if_else(_COMPUTE.less(first, 0), NO_SEQUENCE, around).cast(pyarrow.int32())
