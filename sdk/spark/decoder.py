"""Decode batches and damaged bytes into Arrow batches with the columns that Spark receives.

Rows from many batches, files and values share an Arrow batch, whose size is about `ROWS_BYTES_MAX` whatever the sizes
of the record batches. Values common to all records of a batch are written once per run of batches, and Arrow repeats
them for each row.

Source: `KafkaRecordToRowConverter` in Apache Spark.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow
import pyarrow.compute

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_COMPRESSION_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_TIMESTAMP_TYPE_MASK,
    MESSAGE_V0_MAGIC,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import Batch, Compression, TimestampType
from kafkawire.sdk.records.columns import OffsetRange
from kafkawire.sdk.records.rows import (
    ROWS_BYTES_MAX,
    ROWS_MAX,
    BatchColumns,
    PlainBatches,
    arrow_arrays,
    rows_builder,
)
from kafkawire.sdk.records.stored import Damage
from kafkawire.sdk.spark.damage import DamageLog, Mode, Place, damage_of, error_of
from kafkawire.sdk.spark.schema import COLUMNS, CORRUPT, arrow_schema

__all__ = ["SEQUENCES", "Decoder"]

#: Columns with a separate value for each record.
_OF_RECORDS = frozenset({"key", "value", "offset", "timestamp", "headers"})

#: NO_TIMESTAMP_TYPE in Kafka's consumer, for magic 0, which has no timestamps.
_NO_TIMESTAMP_TYPE = -1

#: Sequence numbers wrap around to 0 after the highest int32.
SEQUENCES: Final = 2**31

#: Most of this module's functions are created at import time, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute


class _OfBatch(NamedTuple):
    """A column with the same value for all records of a batch.

    Attributes:
        fields: the fields of `BatchColumns` from which the value is computed.
        value: the function that computes the value.
    """

    fields: tuple[str, ...]
    value: Callable[..., Any]

    def values(self, batches: BatchColumns) -> list[Any]:
        """Return the value of each batch, or a single value if all are equal."""
        columns = [getattr(batches, field) for field in self.fields]
        if all(map(_is_constant, columns)):
            columns = [column[:1] for column in columns]
        return list(map(self.value, *columns))


def _is_constant(column: memoryview[int]) -> bool:
    content = column.tobytes()
    return content == content[: column.itemsize] * len(column)


def _timestamp_type(magic: int, attributes: int) -> int:
    if magic == MESSAGE_V0_MAGIC:
        return _NO_TIMESTAMP_TYPE
    return int(TimestampType.LOG_APPEND_TIME if attributes & BATCH_TIMESTAMP_TYPE_MASK else TimestampType.CREATE_TIME)


def _is_transactional(magic: int, attributes: int) -> bool:
    return magic == BATCH_MAGIC and attributes & BATCH_IS_TRANSACTIONAL_MASK != 0


def _compression(attributes: int) -> str:
    return Compression(attributes & BATCH_COMPRESSION_MASK).name.lower()


def _first_offset(magic: int, base_offset: int) -> int | None:
    """Return the first offset of a batch; None if its header does not contain it."""
    return base_offset if magic == BATCH_MAGIC else None


#: The columns of a batch; the sequence number is that of the first record.
_OF_BATCHES = {
    "timestampType": _OfBatch(("magics", "attributes"), _timestamp_type),
    "leaderEpoch": _OfBatch(("leader_epochs",), int),
    "producerId": _OfBatch(("producer_ids",), int),
    "producerEpoch": _OfBatch(("producer_epochs",), int),
    "sequence": _OfBatch(("base_sequences",), int),
    "isTransactional": _OfBatch(("magics", "attributes"), _is_transactional),
    "compression": _OfBatch(("attributes",), _compression),
    "batchOffset": _OfBatch(("magics", "base_offsets"), _first_offset),
    "batchPosition": _OfBatch(("positions",), lambda position: None if position < 0 else position),
}

#: Columns with the same value for all records of a file or value.
_OF_PLACES: dict[str, Callable[[Place], Any]] = {
    "topic": lambda place: place.topic,
    "partition": lambda place: place.partition,
    "path": lambda place: place.path,
}


class Decoder:
    """Builds Arrow batches.

    Args:
        names: the column names, in order; see `schema.py`.
        mode: how damage is handled. PERMISSIVE needs a column for the damage; without that column, damage is dropped.
        rows_max: the maximum number of rows in an Arrow batch.
        bytes_max: the maximum total size of its keys, values and headers in bytes, unless a single record is larger.
        times_ms: the first wanted time, and the first time after the wanted range; None for no limit. Damage has no
            time.

    Attributes:
        dropped: damage without a row.
        times_ms: see above.
    """

    #: As in the connector; see `BatchRows`.
    takes_control = False

    def __init__(
        self,
        names: Sequence[str],
        mode: Mode,
        *,
        rows_max: int = ROWS_MAX,
        bytes_max: int = ROWS_BYTES_MAX,
        times_ms: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self.dropped = DamageLog()
        self.times_ms = times_ms
        self._names = tuple(names)
        self._schema = arrow_schema(names)
        self._mode = mode
        wanted = _OF_RECORDS.intersection(names)
        if "sequence" in names:
            wanted |= {"offset"}
        if times_ms != (None, None):
            wanted |= {"timestamp"}
        self._rows = rows_builder(wanted, rows_max=rows_max, bytes_max=bytes_max)
        #: The origins of the rows, each with the number of its first row.
        self._places: list[tuple[int, Place]] = []
        #: Columns that repeat one value, keyed by name, with the last value.
        self._repeated: dict[str, tuple[Any, pyarrow.Array]] = {}
        self._corrupt: list[tuple[Place, Damage]] = []

    def add(
        self, place: Place, batch: Batch, position: int | None, wanted: OffsetRange = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Add the records of a batch, and yield full Arrow batches.

        Args:
            place: the origin of the batch.
            batch: a batch of any magic with a valid checksum, not a control batch.
            position: its position in the file or value; None if it was fetched from a broker.
            wanted: which records are wanted; None for all.

        Raises:
            DecodeError: the batch is damaged, and the mode is FAILFAST.
        """
        self._enter(place)
        try:
            self._rows.begin(batch, wanted, -1 if position is None else position)
        except DecodeError as error:
            yield from self.add_damage(place, damage_of(batch, position or 0, error))
            return
        while not self._rows.fill():
            yield from self._take()

    def add_plain(self, place: Place, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        """Add all plain batches at the beginning of some bytes together, without creating an object for each.

        Args:
            place: the origin of the bytes.
            content: the bytes.
            plain: which batches to add.

        Returns:
            The number of bytes added; the offset after them, if any were added.
        """
        self._enter(place)
        return self._rows.add_plain(content, plain)

    def add_damage(self, place: Place, damage: Damage, expected: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Add bytes that are not records.

        Args:
            place: the origin of the bytes.
            damage: a description of the bytes.
            expected: not needed here; see `BatchRows`.

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

    def add_tail(self, place: Place, tail: Damage, expected: int) -> Iterator[pyarrow.RecordBatch]:
        """Add nothing: a tail is neither a record nor damage, since a broker may still be writing it."""
        return iter(())

    def flush(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows added so far."""
        if self._rows.count:
            yield from self._take()
        if self._corrupt:
            yield self._take_corrupt()

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the remaining rows, and log the total of dropped damage."""
        yield from self.flush()
        self.dropped.finish()

    def _enter(self, place: Place) -> None:
        """Set the origin of the rows that follow."""
        if self._places and self._places[-1][0] == self._rows.count:
            self._places.pop()  # no row has that origin
        if not self._places or self._places[-1][1] != place:
            self._places.append((self._rows.count, place))

    def _take(self) -> Iterator[pyarrow.RecordBatch]:
        count = self._rows.count
        places = [each for each in self._places if each[0] < count]
        self._places = [(0, self._places[-1][1])]
        rows = self._rows.take()
        arrays = arrow_arrays(rows)
        # Compare the stored value, since the column is null for a time that Spark cannot represent.
        kept = None if self.times_ms == (None, None) else _in_time(arrays["timestamp"], *self.times_ms)
        for name in self._names:
            if name in _OF_BATCHES and name != "sequence":
                arrays[name] = self._spread(name, _OF_BATCHES[name].values(rows.batches), rows.batches.ends)
            elif name in _OF_PLACES:
                values = [_OF_PLACES[name](place) for _, place in places]
                arrays[name] = self._spread(name, values, array("i", [*(start for start, _ in places[1:]), count]))
            elif name == CORRUPT:
                arrays[name] = pyarrow.nulls(count, self._schema.field(name).type)
        if "sequence" in self._names:
            first, first_offset = (
                self._spread(name, _OF_BATCHES[name].values(rows.batches), rows.batches.ends)
                for name in ("sequence", "batchOffset")
            )
            arrays["sequence"] = _sequences(first, arrays["offset"], first_offset)
        if "timestamp" in self._names:
            milliseconds = arrays["timestamp"]
            arrays["timestamp"], outside = _in_microseconds(milliseconds)
            for row in outside:
                place = next(place for start, place in reversed(places) if start <= row)
                number = bisect_right(rows.batches.ends, row)
                magic, position, first_offset = (
                    column[number]
                    for column in (rows.batches.magics, rows.batches.positions, rows.batches.base_offsets)
                )
                reason = f"timestamp {milliseconds[row].value} of a record is outside Spark's range"
                damage = Damage(max(position, 0), 0, reason, _first_offset(magic, first_offset))
                yield from self.add_damage(place, damage)
        columns = [arrays[name] for name in self._names]
        if kept is not None and kept.true_count < count:
            columns = [column.filter(kept) for column in columns]
        if kept is None or kept.true_count:
            yield pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _spread(self, name: str, values: Sequence[Any], ends: memoryview[int] | array[int]) -> pyarrow.Array:
        """Return a column from batch or origin values, each valid up to a row; a single value applies to all rows."""
        kind, count = COLUMNS[name].arrow, ends[-1]
        if len(values) == 1:
            value, (kept, column) = values[0], self._repeated.get(name, (None, None))
            if column is None or kept != value or len(column) < count:
                column = pyarrow.repeat(pyarrow.scalar(value, kind), count)
                self._repeated[name] = value, column
            return column.slice(0, count)
        rows = pyarrow.Array.from_buffers(pyarrow.int32(), len(ends), [None, pyarrow.py_buffer(ends)])
        return _COMPUTE.run_end_decode(pyarrow.RunEndEncodedArray.from_arrays(rows, pyarrow.array(values, kind)))

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


def _in_time(milliseconds: pyarrow.Array, start_ms: int | None, end_ms: int | None) -> pyarrow.Array:
    """Return which timestamps are at or after the start, and before the end."""
    numbers = milliseconds.cast(pyarrow.int64())
    start, end = (None if limit is None else min(limit, INT64_MAX) for limit in (start_ms, end_ms))
    is_late = True if start is None else _COMPUTE.greater_equal(numbers, start)
    is_early = True if end is None else _COMPUTE.less(numbers, end)
    return _COMPUTE.and_(is_late, is_early)


def _in_microseconds(milliseconds: pyarrow.Array) -> tuple[pyarrow.Array, list[int]]:
    """Return timestamps in Spark's form, and the rows with timestamps that Spark cannot represent, which are null."""
    kind = pyarrow.timestamp("us", "UTC")
    try:
        return milliseconds.cast(kind), []
    except pyarrow.ArrowInvalid:
        milliseconds = milliseconds.cast(pyarrow.int64())
        limit = INT64_MAX // 1000
        fits = [abs(number) <= limit for number in milliseconds.to_pylist()]
        numbers = [number if fit else None for number, fit in zip(milliseconds.to_pylist(), fits, strict=True)]
        found = pyarrow.array(numbers, pyarrow.timestamp("ms", "UTC")).cast(kind)
        return found, [row for row, fit in enumerate(fits) if not fit]


def _sequences(first: pyarrow.Array, offsets: pyarrow.Array, first_offsets: pyarrow.Array) -> pyarrow.Array:
    """Return the sequence number of each record, computed from that of the first record in its batch."""
    if _COMPUTE.max(first).as_py() == NO_SEQUENCE:
        return first
    numbers = _COMPUTE.add(
        first.cast(pyarrow.int64()), _COMPUTE.subtract(offsets, _COMPUTE.coalesce(first_offsets, offsets))
    )
    around = _COMPUTE.if_else(
        _COMPUTE.greater_equal(numbers, SEQUENCES), _COMPUTE.subtract(numbers, SEQUENCES), numbers
    )
    return _COMPUTE.if_else(_COMPUTE.less(first, 0), NO_SEQUENCE, around).cast(pyarrow.int32())
