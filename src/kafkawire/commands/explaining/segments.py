"""Find something in a log segment and say what its bytes are: a batch, a record by its offset, keys and values.

Damage hides nothing that can be read: batches with a wrong checksum are explained like others, what is no batch as far
as it goes, and keys and values are looked for behind it, too. Called by `explain.py`.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.record_formats import RecordFormat
from kafkawire.commands.explaining.record_parts import RecordPart
from kafkawire.commands.explaining.records import Row, explain_records
from kafkawire.sdk.errors import DecodeError, KafkaWireError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import Batch, MessageBatch, Record, walk, walk_headers
from kafkawire.sdk.records.stored import Damage, Memory, Stored, read_stored

__all__ = ["ExplainedRecord", "LogSegment", "Place", "explain_chosen", "is_batches", "one_record"]


class Place(NamedTuple):
    """What is to be explained of a segment; everything if nothing is given.

    Attributes:
        batch: the number of a batch, from 0.
        offset: of a record.
        position: where a batch begins, in bytes.
    """

    batch: int | None = None
    offset: int | None = None
    position: int | None = None


class ExplainedRecord(NamedTuple):
    """What a record's key or value is.

    Attributes:
        offset: of the record.
        position: of its batch in the file, in bytes.
        part: `key` or `value`.
        rows: its bytes, counted from its beginning.
        error: what is wrong with it.
    """

    offset: int
    position: int
    part: str
    rows: list[Row]
    error: str


class LogSegment:
    """A log segment; its file is mapped, not read.

    Args:
        path: a `.log` file.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            size = path.stat().st_size
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")

    def batch(self, number: int) -> Batch:
        """Return a batch by its number in the file.

        Raises:
            DecodeError: the file is no segment, or damaged before the end of the batch.
            ValueError: there are fewer batches.
        """
        for index, batch in enumerate(walk_headers(self._data)):
            if index == number:
                return batch
        raise ValueError(f"{self._path} has no batch {number}; batches count from 0")

    def batch_with(self, offset: int) -> Batch:
        """Return the batch that has an offset.

        Raises:
            DecodeError: the file is no segment, or damaged before the end of the batch.
            ValueError: there is none.
        """
        first = last = None
        for batch in walk_headers(self._data):
            first = batch.base_offset if first is None else first
            last = batch.last_offset
            if last >= offset:
                if batch.base_offset <= offset or isinstance(batch, MessageBatch):
                    return batch
                break
        held = "it has no batch" if first is None else f"it begins with {first}; {last} is the last one looked at"
        raise ValueError(f"{self._path} has no batch with offset {offset}: {held}")

    def batch_at(self, position: int) -> Batch:
        """Return the batch that begins at a byte of the file; its own position counts from there.

        Raises:
            DecodeError: no batch begins there.
            ValueError: the file ends before.
        """
        for batch in walk_headers(self._data[position:]):
            return batch
        raise ValueError(f"{self._path} has {len(self._data)} bytes, so no batch begins at byte {position}")

    def found(self, place: Place) -> tuple[int, Batch]:
        """Return where a batch begins, and it; the first one if nothing is said of the place.

        Raises:
            DecodeError: the file is no segment, or damaged before the end of the batch.
            ValueError: there is no such batch.
        """
        if place.offset is not None:
            batch = self.batch_with(place.offset)
        elif place.batch is not None:
            batch = self.batch(place.batch)
        else:
            return place.position or 0, self.batch_at(place.position or 0)
        return batch.position, batch

    def at(self, position: int, size: int) -> bytes:
        """Return bytes of the file."""
        return bytes(self._data[position : position + size])

    def parts(self, wanted: tuple[RecordPart, ...], place: Place) -> Iterator[ExplainedRecord | Damage]:
        """Yield what keys and values are.

        Args:
            wanted: the types to read them as.
            place: of the records; the whole file if nothing is said of it. Then damage is passed over, and yielded.

        Raises:
            DecodeError: the chosen batch is damaged, or something before it.
            ValueError: there is no such batch.
        """
        chosen = read_stored(Memory(self._data)) if place == Place() else (Stored(*self.found(place)),)
        for each in chosen:
            if isinstance(each, Damage):
                yield each
                continue
            for record in each.batch.records():
                if place.offset in (None, record.offset):
                    yield from _explained(record, each, wanted)


def _explained(record: Record, stored: Stored, wanted: tuple[RecordPart, ...]) -> Iterator[ExplainedRecord]:
    for part in wanted:
        if part.is_control != stored.batch.is_control:
            continue
        found = part.explain(record.key or b"", record.value)
        if found is not None:
            yield ExplainedRecord(record.offset, stored.position, part.part, *found)


def one_record(rows: list[Row], offset: int, base_offset: int) -> list[Row] | None:
    """Return of the rows of a batch those of its header and of one record; None if compaction has removed it."""
    wanted = str(offset - base_offset)
    found = next((row.path for row in rows if row.path.endswith("].offset_delta") and row.value == wanted), None)
    if found is None:
        return None
    record = found.removesuffix("offset_delta")
    return [row for row in rows if not row.path.startswith("records[") or row.path.startswith(record)]


def is_batches(data: bytes) -> bool:
    """Return whether bytes begin with a batch, checksum included."""
    try:
        return next(walk(data), None) is not None
    except KafkaWireError:
        return False


def explain_chosen(
    segment: LogSegment, formats: Mapping[str, RecordFormat], place: Place
) -> tuple[str, list[Row], DecodeError | None]:
    """Explain a batch, or one record of it if its offset is given.

    Returns:
        What is explained, its rows, and what is wrong with it. If no batch begins at the place, the rows are of what
        may be its header.

    Raises:
        DecodeError: the file is no segment, or damaged before the batch.
        ValueError: there is no such batch, or no such record in it.
    """
    try:
        position, batch = segment.found(place)
    except DecodeError as damage:
        if place.batch is not None or place.offset is not None:
            raise
        position = place.position or 0
        head = segment.at(position, BATCH_HEADER_BYTES)
        rows, _ = explain_records(formats, head)
        return f"no batch at byte {position}", rows or [Row(0, head, "", "not read")], damage
    rows, error = explain_records(formats, segment.at(position, batch.size_in_bytes))
    if place.offset is not None and error is None and not isinstance(batch, MessageBatch):
        found = one_record(rows, place.offset, batch.base_offset)
        if found is None:
            raise ValueError(
                f"no record has offset {place.offset}: its batch, at byte {batch.position}, has "
                f"{batch.base_offset} to {batch.last_offset}, but not this one any more"
            )
        rows = found
    return f"batch at byte {position}, offsets {batch.base_offset} to {batch.last_offset}", rows, error
