"""From parts of segments to Arrow batches; does not need Spark.

A part has the batches that begin between its first cut and the next sound one. Rows of several parts share Arrow
batches. At any time there is a window of the file in memory, the records of one batch, and one Arrow batch.

Source: `LogSegment.read`, `CompletedFetch` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow
import pyarrow.compute

from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.columns import OffsetRange
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.rows import PlainBatches
from kafkawire.sdk.records.stored import Damage, read_stored
from kafkawire.sdk.records.walk import Batch
from kafkawire.sdk.spark.damage import DamageLog, Mode, Place, error_of
from kafkawire.sdk.spark.decoder import Decoder
from kafkawire.sdk.spark.order import InOrder, first_offset
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import batch_at, batch_headers, header_at
from kafkawire.sdk.spark.segments.options import SegmentOptions
from kafkawire.sdk.spark.segments.plan import Cut, SegmentPart, Wanted
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles
from kafkawire.sdk.spark.segments.transactions import Transactions

__all__ = ["ReadOptions", "Sink", "offset_at", "read_into", "read_options", "read_parts"]

_TIMESTAMP = "timestamp"

#: Most of its functions are made when it is imported, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute


class ReadOptions(NamedTuple):
    """How parts are read.

    Attributes:
        names: of the columns, see `schema.py`.
        mode: what becomes of damage.
        is_committed_only: whether records of transactions that were aborted, or have not ended, are left out.
        decompressed_bytes_max: of the records of one batch.
        fails_on_loss: whether it is an error that a file is gone or shorter than when it was listed.
    """

    names: tuple[str, ...]
    mode: Mode = Mode.FAILFAST
    is_committed_only: bool = False
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES
    fails_on_loss: bool = True


def read_options(options: SegmentOptions, names: tuple[str, ...], fails_on_loss: bool) -> ReadOptions:
    """Return how parts are read.

    Args:
        options: what the user asks for.
        names: of the columns.
        fails_on_loss: whether it is an error that a file is gone.
    """
    return ReadOptions(names, options.mode, options.is_committed_only, options.decompressed_bytes_max, fails_on_loss)


class Sink(Protocol):
    """Makes Arrow batches of what is in parts, in order; `Decoder` makes rows of records.

    Attributes:
        dropped: what was left out without a row.
        takes_control: whether control batches are added, too.
    """

    dropped: DamageLog
    takes_control: bool

    def add(
        self, place: Place, batch: Batch, position: int, wanted: OffsetRange = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Add a batch with a right checksum, and yield what is full."""
        ...

    def add_plain(self, place: Place, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        """Add at once what can be added of the batches at the beginning of some bytes; see `RowsBuilder.add_plain`."""
        ...

    def add_damage(self, place: Place, damage: Damage) -> Iterator[pyarrow.RecordBatch]:
        """Add bytes that are no records, and yield what is full."""
        ...

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield what is left."""
        ...


def read_into(
    sink: Sink, parts: Iterable[SegmentPart], files: SegmentFiles, options: ReadOptions
) -> Iterator[pyarrow.RecordBatch]:
    """Read parts into a sink, whatever the times of their records, and yield its Arrow batches.

    Args:
        sink: gets the batches.
        parts: in order.
        files: where they are.
        options: the names of columns do not count, they are up to the sink.

    Raises:
        DecodeError: see `read_parts`.
        OSError: a file cannot be read.
    """
    for part in parts:
        yield from _part(part, files, options, sink)
    yield from sink.finish()


def read_parts(
    parts: Iterable[SegmentPart], files: SegmentFiles, options: ReadOptions
) -> Iterator[pyarrow.RecordBatch]:
    """Read what is wanted of some parts.

    Args:
        parts: in order.
        files: where they are.
        options: see above.

    Yields:
        Arrow batches with the columns of `options.names`.

    Raises:
        DecodeError: damaged data, and the mode is FAILFAST; or a file is gone or too short, and that is an error.
        OSError: a file cannot be read.
    """
    decoder = Decoder(options.names, options.mode)
    timed: tuple[Decoder, Wanted] | None = None
    for part in parts:
        wanted = part.wanted
        if wanted.start_timestamp_ms is None and wanted.end_timestamp_ms is None:
            yield from _part(part, files, options, decoder)
            continue
        # Rows of other times are left out of whole Arrow batches, so all in one are of the same range.
        if timed is None or timed[1][2:] != wanted[2:]:
            if timed is not None:
                yield from _in_time(timed[0].finish(), timed[1], options.names)
            timed = Decoder(tuple(dict.fromkeys((*options.names, _TIMESTAMP))), options.mode), wanted
        yield from _in_time(_part(part, files, options, timed[0]), wanted, options.names)
    if timed is not None:
        yield from _in_time(timed[0].finish(), timed[1], options.names)
    yield from decoder.finish()


def _in_time(
    batches: Iterable[pyarrow.RecordBatch], wanted: Wanted, names: tuple[str, ...]
) -> Iterator[pyarrow.RecordBatch]:
    """Leave out rows of other times; those without one are not records."""
    for batch in batches:
        times = batch.column(_TIMESTAMP)
        mask = None
        if wanted.start_timestamp_ms is not None:
            mask = _COMPUTE.greater_equal(times, _time(wanted.start_timestamp_ms))
        if wanted.end_timestamp_ms is not None:
            is_before = _COMPUTE.less(times, _time(wanted.end_timestamp_ms))
            mask = is_before if mask is None else _COMPUTE.and_(mask, is_before)
        kept = batch.filter(_COMPUTE.fill_null(mask, True)).select(list(names))
        if kept.num_rows:
            yield kept


def _time(timestamp_ms: int) -> pyarrow.Scalar:
    return pyarrow.scalar(timestamp_ms * 1000, pyarrow.timestamp("us", "UTC"))


def _part(part: SegmentPart, files: SegmentFiles, options: ReadOptions, sink: Sink) -> Iterator[pyarrow.RecordBatch]:
    """Add what is in a part to a sink, and yield what is full."""
    segment, cuts = part.segment, part.cuts
    place = Place(segment.folder.topic, segment.folder.partition, segment.path)
    try:
        file = files.open(segment)
    except FileNotFoundError:
        lost = "the file was there when the work was planned, and is gone: a broker removes old segments"
        yield from _lost(Damage(cuts[part.number].position, part.size_bytes, lost), place, options, sink)
        return
    with file:
        wanted = part.wanted
        if file.size_bytes < segment.size_bytes:
            lost = f"the file has {file.size_bytes} bytes, {segment.size_bytes} when the work was planned"
            if part.number == 0 or options.fails_on_loss:
                missing = Damage(file.size_bytes, segment.size_bytes - file.size_bytes, lost)
                yield from _lost(missing, place, options, sink)
            # Cleaning replaced it by a shorter one: the cuts do not fit any more, but the offsets in it do.
            bounds: _Bounds | None = _Bounds(0, file.size_bytes, segment.base_offset, segment.end_offset)
            wanted = _between(wanted, cuts, part.number)
        else:
            bounds = _bounds(part, file)
        if bounds is not None:
            yield from _Reading(files, options, sink, place, segment, file, bounds, wanted).read()


def _lost(damage: Damage, place: Place, options: ReadOptions, sink: Sink) -> Iterator[pyarrow.RecordBatch]:
    if options.fails_on_loss:
        raise error_of(place, damage)
    if options.mode is Mode.FAILFAST:
        sink.dropped.add(place, damage)
    else:
        yield from sink.add_damage(place, damage)


class _Bounds(NamedTuple):
    """Where a part really begins and ends.

    Attributes:
        start: in bytes.
        end: a batch that begins before is read as a whole.
        lowest: no offset in it is lower.
        end_offset: none reaches this one; None if nothing follows.
    """

    start: int
    end: int
    lowest: int
    end_offset: int | None


def _bounds(part: SegmentPart, file: OpenFile) -> _Bounds | None:
    """Return where a part begins and ends by the cuts that are sound, None if the part before reads what is in it."""
    segment = part.segment
    start, lowest = 0, segment.base_offset
    cut = part.cuts[part.number]
    if cut.position:
        first = offset_at(file, cut)
        if first is not None:
            start, lowest = cut.position, first
        elif part.number:
            return None
    for cut in part.cuts[part.number + 1 :]:
        if cut.position >= segment.size_bytes:
            break
        offset = offset_at(file, cut)
        if offset is not None:
            is_enough = part.wanted.end_offset is None or offset >= part.wanted.end_offset
            if is_enough or cut is not part.cuts[-1]:
                limit = offset if segment.end_offset is None else min(offset, segment.end_offset)
                return _Bounds(start, cut.position, lowest, limit)
    # What was appended since the file was listed is not wanted.
    return _Bounds(start, segment.size_bytes, lowest, segment.end_offset)


def offset_at(file: OpenFile, cut: Cut) -> int | None:
    """Return the first offset of the batch at a cut; None if there is no sound one, or its offset cannot be right."""
    source = file.leaps()
    batch = batch_at(source, cut.position)
    if batch is None:
        return None
    offset = first_offset(batch)
    if batch.magic != BATCH_MAGIC:  # a wrapper is known by its last offset
        return offset if cut.after < offset else None
    if not cut.after < offset <= cut.to:
        return None
    if batch.last_offset != cut.to:
        # Brokers before 4.0 may have appended it together with others; then the next one follows without a gap.
        following = header_at(source, cut.position + batch.size_in_bytes)
        if following is None or following.base_offset != batch.last_offset + 1:
            return None
    return offset


def _between(wanted: Wanted, cuts: tuple[Cut, ...], number: int) -> Wanted:
    """Return what is wanted of the offsets between two cuts."""
    start, end = wanted.start_offset, wanted.end_offset
    if number:
        start = max(start, cuts[number].after + 1)
    if number + 2 < len(cuts):
        following = cuts[number + 1].after + 1
        end = following if end is None else min(end, following)
    return wanted._replace(start_offset=start, end_offset=end)


class _Reading:
    """Reads a part of a segment into a sink."""

    def __init__(
        self,
        files: SegmentFiles,
        options: ReadOptions,
        sink: Sink,
        place: Place,
        segment: FoundSegment,
        file: OpenFile,
        bounds: _Bounds,
        wanted: Wanted,
    ) -> None:
        self._files = files
        self._options = options
        self._sink = sink
        self._place = place
        self._segment = segment
        self._file = file
        self._bounds = bounds
        self._wanted = wanted
        self._window = file.window()
        stored = read_stored(
            self._window,
            bounds.start,
            bounds.end,
            is_growing=segment.end_offset is None,
            limit=options.decompressed_bytes_max,
            take=self._take if wanted.start_timestamp_ms is None else None,
        )
        self._found = InOrder(stored, bounds.lowest, bounds.end_offset, self._is_elsewhere)
        #: Of the offsets that may be in what is damaged.
        self._lowest = bounds.lowest

    def read(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield what is full."""
        bounds, wanted = self._bounds, self._wanted
        transactions = Transactions(self._files, self._segment) if self._options.is_committed_only else None
        damaged: list[Damage] = []
        for found in self._found:
            if isinstance(found, Damage):
                damaged.append(found)
                continue
            position, batch = found
            yield from self._add_damage(damaged, first_offset(batch))
            damaged.clear()
            self._lowest = batch.last_offset + 1
            if wanted.end_offset is not None and first_offset(batch) >= wanted.end_offset and _is_plain(batch):
                break
            if (batch.is_control and not self._sink.takes_control) or not _overlaps(batch, wanted):
                continue
            if transactions is None or transactions.is_visible(batch, position):
                yield from self._sink.add(self._place, batch, position, _range(batch, wanted))
        yield from self._add_damage(damaged, bounds.end_offset)
        end = self._window.end
        if end < min(bounds.end, self._file.size_bytes):
            lost = f"the file ended at {end} while it was read, it had {self._file.size_bytes} bytes before"
            missing = Damage(end, self._file.size_bytes - end, lost)
            yield from _lost(missing, self._place, self._options, self._sink)

    def _take(self, content: memoryview, position: int) -> int:
        """Add batches that need no look at each, those without a gap that are wanted as a whole; return their size."""
        next_offset = self._found.next_offset
        if next_offset is None or next_offset < self._wanted.start_offset:
            return 0
        end = self._found.limit if self._wanted.end_offset is None else min(self._found.limit, self._wanted.end_offset)
        plain = PlainBatches(
            position, self._bounds.end - position, next_offset, end, not self._options.is_committed_only
        )
        taken, next_offset = self._sink.add_plain(self._place, content, plain)
        if taken:
            self._found.next_offset = self._lowest = next_offset
        return taken

    def _add_damage(self, damaged: Iterable[Damage], end_offset: int | None) -> Iterator[pyarrow.RecordBatch]:
        """Add what is damaged, unless nothing in it was wanted: a stream would meet it again and again."""
        lowest, wanted = self._lowest, self._wanted
        if wanted.end_offset is not None and lowest >= wanted.end_offset:
            return
        if lowest < wanted.start_offset and end_offset is not None and end_offset <= wanted.start_offset:
            return
        for damage in damaged:
            yield from self._sink.add_damage(self._place, damage)

    def _is_elsewhere(self, batch: Batch) -> bool:
        """Return whether a batch behind the end of its segment is also in a following one, as it is or not cleaned."""
        before = [each for each in self._files.after(self._segment) if each.base_offset <= first_offset(batch)]
        if not before:
            return False
        try:
            file = self._files.open(before[-1])
        except FileNotFoundError:
            return False
        with file:
            for header in batch_headers(file.leaps()):
                if header.last_offset >= first_offset(batch):
                    other = batch_at(file.leaps(), header.position)
                    return other is not None and _is_same(batch, other)
        return False


def _is_same(batch: Batch, other: Batch) -> bool:
    """Return whether a batch is another one, or what cleaning left of it: it keeps offsets and producer."""
    is_left = batch.crc == other.crc or batch.records_count < other.records_count
    return is_left and _identity(batch) == _identity(other)


def _identity(batch: Batch) -> tuple[int, ...]:
    return first_offset(batch), batch.last_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence


def _is_plain(batch: Batch) -> bool:
    """Return whether the header says the first offset."""
    return batch.magic == BATCH_MAGIC


def _overlaps(batch: Batch, wanted: Wanted) -> bool:
    """Return whether some of a batch may be wanted, by its header."""
    if batch.last_offset < wanted.start_offset:
        return False
    start_ms = wanted.start_timestamp_ms
    return start_ms is None or batch.magic != BATCH_MAGIC or batch.max_timestamp >= start_ms


def _range(batch: Batch, wanted: Wanted) -> OffsetRange:
    """Return which records of a batch are wanted; None for all."""
    end = batch.last_offset + 1 if wanted.end_offset is None else wanted.end_offset
    if _is_plain(batch) and wanted.start_offset <= batch.base_offset and batch.last_offset < end:
        return None
    return wanted.start_offset, end
