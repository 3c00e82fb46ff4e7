"""Read parts of segments into Arrow batches; does not need Spark.

A part contains the batches whose last offset is after its first cut but not after the next cut. The byte positions of
the cuts only determine where to begin reading, so the parts yield each record exactly once whatever the index contains,
even if a broker replaces the segment with a cleaned one during reading. Rows of several parts may share an Arrow batch.
Memory use is limited to a window of the file, the records of one batch, and one Arrow batch.

Source: `LogSegment.read`, `CompletedFetch`, `LogSegments.replaceSegments` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import pyarrow

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.columns import OffsetRange
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.rows import PlainBatches
from kafkawire.sdk.records.stored import Damage, read_stored
from kafkawire.sdk.records.walk import Batch
from kafkawire.sdk.spark.damage import DamageLog, Mode, Place, damage_of, error_of
from kafkawire.sdk.spark.decoder import Decoder
from kafkawire.sdk.spark.isolation import ends_transaction
from kafkawire.sdk.spark.offset_order import InOrder, first_offset
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import batch_at, batch_headers, header_at
from kafkawire.sdk.spark.segments.options import SegmentOptions
from kafkawire.sdk.spark.segments.plan import Cut, SegmentPart, Wanted
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles
from kafkawire.sdk.spark.segments.transactions import Transactions

__all__ = ["BatchRows", "ReadOptions", "offset_at", "read_into", "read_options", "read_parts"]


class ReadOptions(NamedTuple):
    """Options for reading parts.

    Attributes:
        names: the column names; see `schema.py`.
        mode: how damage is handled.
        is_committed_only: whether to omit records of transactions that were aborted or have not ended.
        decompressed_bytes_max: the maximum size of a batch's records after decompression, in bytes.
        fails_on_loss: whether a file that is gone, or shorter than when it was listed, is an error.
        logs_loss: whether a loss that is not an error is merely logged and never becomes a row.
    """

    names: tuple[str, ...]
    mode: Mode = Mode.FAILFAST
    is_committed_only: bool = False
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES
    fails_on_loss: bool = True
    logs_loss: bool = False


def read_options(options: SegmentOptions, names: tuple[str, ...], fails_on_loss: bool) -> ReadOptions:
    """Return the options for reading parts.

    Args:
        options: the user's options.
        names: the column names; empty for callers that build other rows.
        fails_on_loss: whether a file that is gone is an error.

    Raises:
        ConfigurationError: record columns are requested, but no records are read.
    """
    if not names:
        options.check_without_columns()
    return ReadOptions(names, options.mode, options.is_committed_only, options.decompressed_bytes_max, fails_on_loss)


class BatchRows(Protocol):
    """Builds Arrow batches from the content of parts, in order; `Decoder` builds rows for records.

    Attributes:
        dropped: damage without a row.
        takes_control: whether control batches are also added.
    """

    dropped: DamageLog
    takes_control: bool

    def add(
        self, place: Place, batch: Batch, position: int, wanted: OffsetRange = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Add a batch with a valid checksum, and yield full Arrow batches."""
        ...

    def add_plain(self, place: Place, content: Buffer, plain: PlainBatches) -> tuple[int, int]:
        """Add all plain batches at the beginning of some bytes together; see `RowsBuilder.add_plain`."""
        ...

    def add_damage(self, place: Place, damage: Damage, expected: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Add bytes that are not records, and yield full Arrow batches; `expected` is the offset expected there."""
        ...

    def add_tail(self, place: Place, tail: Damage, expected: int) -> Iterator[pyarrow.RecordBatch]:
        """Add the bytes after the last batch of a partition: zeros, or a batch that a broker may be writing."""
        ...

    def finish(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the remaining rows."""
        ...


def read_into(
    rows: BatchRows, parts: Iterable[SegmentPart], files: SegmentFiles, options: ReadOptions
) -> Iterator[pyarrow.RecordBatch]:
    """Build rows from parts, regardless of timestamps, and yield the Arrow batches.

    Args:
        rows: receives the content of the parts.
        parts: the parts, in order.
        files: the files of the parts.
        options: the options for reading; its column names are ignored, because `rows` determines them.

    Raises:
        DecodeError: see `read_parts`.
        OSError: a file cannot be read.
    """
    for part in parts:
        yield from _part(part, files, options, rows)
    yield from rows.finish()


def read_parts(
    parts: Iterable[SegmentPart], files: SegmentFiles, options: ReadOptions
) -> Iterator[pyarrow.RecordBatch]:
    """Read the wanted records of some parts.

    Args:
        parts: the parts, in order.
        files: the files of the parts.
        options: the columns, and how to handle damage and missing files.

    Yields:
        Arrow batches with the columns of `options.names`.

    Raises:
        DecodeError: the data is damaged and the mode is FAILFAST; or a file is gone or too short, and the options make
            that an error.
        OSError: a file cannot be read.
    """
    decoder = Decoder(options.names, options.mode)
    for part in parts:
        # Rows outside the time range are removed from whole Arrow batches, so one time range must apply to all rows in
        # a batch.
        if part.wanted.times_ms != decoder.times_ms:
            yield from decoder.finish()
            decoder = Decoder(options.names, options.mode, times_ms=part.wanted.times_ms)
        yield from _part(part, files, options, decoder)
    yield from decoder.finish()


def _part(
    part: SegmentPart, files: SegmentFiles, options: ReadOptions, rows: BatchRows
) -> Iterator[pyarrow.RecordBatch]:
    """Add the content of a part to rows, and yield full Arrow batches."""
    segment = part.segment
    place = Place(segment.folder.topic, segment.folder.partition, segment.path)
    try:
        file = files.open(segment)
    except FileNotFoundError:
        merged = files.merged(segment)
        if merged is not None and merged.path != segment.path:
            yield from _part(_in_merged(part, merged), files, options, rows)
            return
        lost = "the file existed when the work was planned, but has since been removed; brokers remove old segments"
        yield from _lost(Damage(part.cuts[part.number].position, part.size_bytes, lost), place, options, rows)
        return
    with file:
        is_shorter = file.size_bytes < segment.size_bytes and not segment.is_packed
        if is_shorter and (part.number == 0 or options.fails_on_loss):
            lost = f"the file has {file.size_bytes} bytes, but had {segment.size_bytes} when the work was planned"
            missing = Damage(file.size_bytes, segment.size_bytes - file.size_bytes, lost)
            yield from _lost(missing, place, options, rows)
        yield from _Reading(files, options, rows, place, part, file).read()


def _in_merged(part: SegmentPart, merged: FoundSegment) -> SegmentPart:
    """Return the corresponding part of the segment into which cleaning has merged this part's segment."""
    start, until = part.offsets
    start, until = max(start, part.segment.base_offset), part.segment.end_offset if until is None else until
    before, end = merged.base_offset - 1, merged.size_bytes
    ends = [] if until is None else [Cut(end, before, until - 1)]
    return SegmentPart(
        merged, (Cut(0, before, before), Cut(0, before, start - 1), *ends, Cut(end, before, before)), 1, part.wanted
    )


def _lost(damage: Damage, place: Place, options: ReadOptions, rows: BatchRows) -> Iterator[pyarrow.RecordBatch]:
    if options.fails_on_loss:
        raise error_of(place, damage)
    if options.logs_loss or options.mode is Mode.FAILFAST:
        rows.dropped.add(place, damage)
    else:
        yield from rows.add_damage(place, damage)


def offset_at(file: OpenFile, cut: Cut) -> int | None:
    """Return the first offset of the batch at a cut; None if there is no valid batch, or its offset is impossible."""
    source = file.leaps()
    batch = batch_at(source, cut.position)
    if batch is None:
        return None
    offset = first_offset(batch)
    if batch.magic != BATCH_MAGIC:  # a wrapper is identified by its last offset
        return offset if cut.after < offset else None
    if not cut.after < offset <= cut.to:
        return None
    if batch.last_offset != cut.to:
        # Brokers before 4.0 may have appended it together with others, in which case the next batch follows without a
        # gap.
        following = header_at(source, cut.position + batch.size_in_bytes)
        if following is None or following.base_offset != batch.last_offset + 1:
            return None
    return offset


def _start(part: SegmentPart, file: OpenFile) -> tuple[int, int]:
    """Return the position at which to begin, at the part's cut or before it, and the lowest offset at or after it."""
    for cut in reversed(part.cuts[: part.number + 1]):
        offset = offset_at(file, cut) if cut.position else None
        if offset is not None:
            return cut.position, offset
    return 0, part.segment.base_offset


class _Reading:
    """Adds a part of a segment to rows."""

    def __init__(
        self,
        files: SegmentFiles,
        options: ReadOptions,
        rows: BatchRows,
        place: Place,
        part: SegmentPart,
        file: OpenFile,
    ) -> None:
        segment, wanted = part.segment, part.wanted
        if wanted.end_offset is not None and wanted.end_offset > INT64_MAX:
            wanted = wanted._replace(end_offset=None)
        self._files = files
        self._options = options
        self._rows = rows
        self._place = place
        self._segment = segment
        self._file = file
        self._wanted = wanted
        #: A batch belongs to this part if its last offset is in this range, whose end is exclusive.
        self._from, self._until = part.offsets
        # Records appended to the last segment after it was listed are not wanted.
        is_limited = segment.end_offset is None and not segment.is_packed
        self._end = min(segment.size_bytes, file.size_bytes) if is_limited else file.size_bytes
        self._window = file.window()
        start, lowest = _start(part, file)
        #: The lowest offset that damage may contain.
        self._lowest = lowest
        #: The position after the last batch.
        self._reached = 0
        #: The bytes after the last batch of the partition.
        self._tail: Damage | None = None
        stored = read_stored(
            self._window,
            start,
            self._end,
            is_growing=segment.end_offset is None,
            limit=options.decompressed_bytes_max,
            take=self._take if wanted.start_timestamp_ms is None else None,
            on_end=self._note_tail,
        )
        self._found = InOrder(stored, lowest, segment.end_offset, self._is_elsewhere)

    def read(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield full Arrow batches."""
        wanted = self._wanted
        options, transactions = self._options, None
        if options.is_committed_only:
            transactions = Transactions(self._files, self._segment, self._file, fails_on_loss=options.fails_on_loss)
        damaged: list[Damage] = []
        for found in self._found:
            if isinstance(found, Damage):
                damaged.append(found)
                continue
            position, batch = found
            yield from self._add_damage(damaged, first_offset(batch))
            damaged.clear()
            if self._is_behind(batch):
                break
            self._lowest = self._reached = batch.last_offset + 1
            if batch.last_offset < self._from or not _overlaps(batch, wanted):
                continue
            if batch.is_control and not self._rows.takes_control:
                if transactions is not None:
                    yield from self._check_marker(batch, position)
            elif transactions is None or transactions.is_visible(batch, position):
                yield from self._rows.add(self._place, batch, position, _range(batch, wanted))
        yield from self._add_damage(damaged, self._segment.end_offset)
        if self._tail is not None and self._until is None and wanted.end_offset is None:
            yield from self._rows.add_tail(self._place, self._tail, self._lowest)
        end = self._window.end
        if end < min(self._end, self._file.size_bytes):
            lost = f"the file ended at {end} while it was read, although it had {self._file.size_bytes} bytes before"
            missing = Damage(end, self._file.size_bytes - end, lost)
            yield from _lost(missing, self._place, self._options, self._rows)

    def _note_tail(self, tail: Damage) -> None:
        self._tail = tail

    def _is_behind(self, batch: Batch) -> bool:
        """Return whether a batch and all batches after it are outside this part or unwanted."""
        end = self._wanted.end_offset
        if end is not None and (self._reached >= end or (_names_first_offset(batch) and batch.base_offset >= end)):
            return True
        return self._until is not None and batch.last_offset >= self._until

    def _take(self, content: memoryview, position: int) -> int:
        """Add, in one step, all batches that follow without a gap and are wanted as a whole; return their size."""
        next_offset = self._found.next_offset
        if next_offset is None or next_offset < max(self._wanted.start_offset, self._from):
            return 0
        limits = (self._found.limit, self._wanted.end_offset, self._until)
        end = min(limit for limit in limits if limit is not None)
        plain = PlainBatches(position, self._end - position, next_offset, end, not self._options.is_committed_only)
        taken, next_offset = self._rows.add_plain(self._place, content, plain)
        if taken:
            self._found.pass_to(next_offset)
            self._lowest = self._reached = next_offset
        return taken

    def _check_marker(self, batch: Batch, position: int) -> Iterator[pyarrow.RecordBatch]:
        """Add an unreadable control batch as damage, because it may have ended a transaction."""
        try:
            ends_transaction(batch)
        except DecodeError as error:
            yield from self._rows.add_damage(self._place, damage_of(batch, position, error), batch.base_offset)

    def _add_damage(self, damaged: Iterable[Damage], end_offset: int | None) -> Iterator[pyarrow.RecordBatch]:
        """Add damage, unless another reader adds it or nothing in it was wanted.

        Args:
            damaged: the damage after the last batch.
            end_offset: the first offset after it; None if unknown.
        """
        lowest, wanted = self._lowest, self._wanted
        if lowest < self._from or (self._until is not None and lowest >= self._until):
            return
        if wanted.end_offset is not None and lowest >= wanted.end_offset:
            return
        is_before = wanted.is_continued or (end_offset is not None and end_offset <= wanted.start_offset)
        if lowest < wanted.start_offset and is_before:
            return
        for damage in damaged:
            yield from self._rows.add_damage(self._place, damage, lowest)

    def _is_elsewhere(self, batch: Batch) -> bool:
        """Return whether a batch beyond the end of its segment is also in a following segment, possibly cleaned there.

        Also return True if the batch was there and cleaning has merged both segments; the reader of the following
        segment reports that.
        """
        before = [each for each in self._files.after(self._segment) if each.base_offset <= first_offset(batch)]
        if not before:
            return True
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
    """Return whether a batch equals another or is what cleaning left of it; cleaning keeps offsets and the producer."""
    is_left = batch.crc == other.crc or batch.records_count < other.records_count
    return is_left and _identity(batch) == _identity(other)


def _identity(batch: Batch) -> tuple[int, ...]:
    return first_offset(batch), batch.last_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence


def _names_first_offset(batch: Batch) -> bool:
    """Return whether the header contains the first offset."""
    return batch.magic == BATCH_MAGIC


def _overlaps(batch: Batch, wanted: Wanted) -> bool:
    """Return whether a batch may contain wanted records, judging by its header."""
    if batch.last_offset < wanted.start_offset:
        return False
    start_ms = wanted.start_timestamp_ms
    return start_ms is None or batch.magic != BATCH_MAGIC or batch.max_timestamp >= start_ms


def _range(batch: Batch, wanted: Wanted) -> OffsetRange:
    """Return which records of a batch are wanted; None for all."""
    end = batch.last_offset + 1 if wanted.end_offset is None else wanted.end_offset
    if _names_first_offset(batch) and wanted.start_offset <= batch.base_offset and batch.last_offset < end:
        return None
    return wanted.start_offset, end
