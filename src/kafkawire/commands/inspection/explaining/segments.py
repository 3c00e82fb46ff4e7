"""Find a batch, a record with a given offset, or keys and values in a log segment, and explain them.

Damage hides no readable bytes: batches with a wrong checksum are explained like any others, malformed batches up to the
    fault, and the search for keys and values continues after damage. `explain.py` calls this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.record_formats import RecordFormat
from kafkawire.commands.inspection.dumping.window import open_file
from kafkawire.commands.inspection.explaining.record_parts import RecordPart
from kafkawire.commands.inspection.explaining.records import Row, explain_records
from kafkawire.sdk.errors import DecodeError, KafkaWireError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES, BATCH_MAGIC_AT
from kafkawire.sdk.records import Batch, MessageBatch, Record, walk, walk_headers
from kafkawire.sdk.records.sound_batches import announced
from kafkawire.sdk.records.stored import BATCH_BYTES_MAX, Damage, Stored, Window, read_stored

__all__ = ["ExplainedRecord", "LogSegment", "Place", "explain_chosen", "is_batches"]


class Place(NamedTuple):
    """The part of a segment to explain; the whole segment by default.

    Attributes:
        batch: the number of a batch, from 0.
        offset: the offset of a record.
        position: where a batch begins, in bytes.
    """

    batch: int | None = None
    offset: int | None = None
    position: int | None = None


class ExplainedRecord(NamedTuple):
    """The explanation of a record's key or value.

    Attributes:
        offset: the offset of the record.
        position: the position of its batch in the file, in bytes.
        part: `key` or `value`.
        rows: its bytes; their offsets are relative to its start.
        error: its error, if any.
    """

    offset: int
    position: int
    part: str
    rows: list[Row]
    error: str


class LogSegment:
    """A log segment, partly in memory. A broker can append to its file or truncate it in the meantime.

    Args:
        path: a `.log` file.

    Raises:
        OSError: the file cannot be read, or is not a regular file; all methods can raise it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_file(path)
        self._size = self._file.seek(0, os.SEEK_END)
        self._window = Window(self._read, self._size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def cut_to(self) -> int | None:
        """The remaining size if the file became shorter while it was being read; None otherwise."""
        return min(self._window.end, self._file.seek(0, os.SEEK_END)) if self._window.end < self._size else None

    def batch(self, number: int) -> tuple[int, Batch]:
        """Return a batch by its number in the file, and its position.

        Raises:
            DecodeError: the file is not a segment, or is damaged before the end of the batch.
            ValueError: the file has fewer batches.
        """
        for index, found in enumerate(self._headers()):
            if index == number:
                return found
        raise ValueError(f"{self._path} has no batch {number}; batches are numbered from 0")

    def batch_with(self, offset: int) -> tuple[int, Batch]:
        """Return the batch that contains an offset, and its position.

        Raises:
            DecodeError: the file is not a segment, or is damaged before the end of the batch.
            ValueError: no batch has the offset.
        """
        first = last = None
        for position, batch in self._headers():
            first = batch.base_offset if first is None else first
            last = batch.last_offset
            if last >= offset:
                if batch.base_offset <= offset or isinstance(batch, MessageBatch):
                    return position, batch
                break
        held = (
            "the file has no batches"
            if first is None
            else f"its first offset is {first}, and the last one read is {last}"
        )
        raise ValueError(f"{self._path} has no batch with offset {offset}: {held}")

    def batch_at(self, position: int) -> tuple[int, Batch]:
        """Return the batch that begins at a position in the file, and this position.

        Raises:
            DecodeError: no batch begins there; the error's offset is relative to the position.
            ValueError: the file ends before the position.
        """
        for batch in walk_headers(self._whole_batch(position)):
            return position, batch
        raise ValueError(f"{self._path} has {self._window.end} bytes, so no batch begins at byte {position}")

    def found(self, place: Place) -> tuple[int, Batch]:
        """Return the position of a batch, and the batch; if `place` is empty, the first one.

        Raises:
            DecodeError: the file is not a segment, or is damaged before the end of the batch.
            ValueError: the batch does not exist.
        """
        if place.offset is not None:
            return self.batch_with(place.offset)
        if place.batch is not None:
            return self.batch(place.batch)
        return self.batch_at(place.position or 0)

    def at(self, position: int, size: int) -> bytes:
        """Return bytes from the file."""
        return bytes(self._window.at(position, size))

    def parts(self, wanted: tuple[RecordPart, ...], place: Place) -> Iterator[ExplainedRecord | Damage]:
        """Yield explanations of keys and values.

        Args:
            wanted: the types of keys and values to read.
            place: the place of the records. If it is empty, the whole file is read, and damage is yielded and skipped.

        Raises:
            DecodeError: the file is damaged in or before the chosen batch.
            ValueError: the batch does not exist.
        """
        chosen = read_stored(self._window) if place == Place() else (Stored(*self.found(place)),)
        for each in chosen:
            if isinstance(each, Damage):
                yield each
                continue
            for record in each.batch.records():
                if place.offset in (None, record.offset):
                    yield from _explained(record, each, wanted)

    def _headers(self) -> Iterator[tuple[int, Batch]]:
        """Yield the position of each batch, and the batch, whose checksum is not verified."""
        position = 0
        while position < self._window.end:
            try:
                for batch in walk_headers(self._whole_batch(position)):
                    yield position, batch
                    position += batch.size_in_bytes
                    break
            except DecodeError as error:
                raise DecodeError(error.path, position + error.offset, error.reason) from None

    def _whole_batch(self, position: int) -> memoryview:
        """Return the bytes of the batch at a position; fewer if the file ends early, or the batch is too large."""
        view = self._window.at(position, BATCH_HEADER_BYTES)
        if len(view) <= BATCH_MAGIC_AT:
            return view
        size, _ = announced(view)
        return self._window.at(position, size) if 0 < size <= BATCH_BYTES_MAX else view

    def _read(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        return self._file.read(size)


def _explained(record: Record, stored: Stored, wanted: tuple[RecordPart, ...]) -> Iterator[ExplainedRecord]:
    for part in wanted:
        if part.is_control != stored.batch.is_control:
            continue
        found = part.explain(record.key or b"", record.value)
        if found is not None:
            yield ExplainedRecord(record.offset, stored.position, part.part, *found)


def is_batches(data: bytes) -> bool:
    """Return whether bytes begin with a batch that has a correct checksum."""
    try:
        return next(walk(data), None) is not None
    except KafkaWireError:
        return False


def explain_chosen(
    segment: LogSegment, formats: Mapping[str, RecordFormat], place: Place
) -> tuple[str, list[Row], DecodeError | None]:
    """Explain a batch, or only the record at an offset.

    Returns:
        A title, the rows, and the error, if any. If no batch begins at the place, the rows show what its header would
        be.

    Raises:
        DecodeError: the file is not a segment, or is damaged before the batch.
        ValueError: the batch, or the record in it, does not exist.
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
    wanted = None if isinstance(batch, MessageBatch) or place.offset is None else place.offset - batch.base_offset
    rows, error = explain_records(formats, segment.at(position, batch.size_in_bytes), offset_delta=wanted)
    if wanted is not None and error is None and not any(row.path.startswith("records[") for row in rows):
        raise ValueError(
            f"no record has offset {place.offset}; the batch at byte {position} has offsets "
            f"{batch.base_offset} to {batch.last_offset}, but the record has been removed"
        )
    return f"batch at byte {position}, offsets {batch.base_offset} to {batch.last_offset}", rows, error
