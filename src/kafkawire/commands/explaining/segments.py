"""Find something in a log segment and say what its bytes are: a batch, a record by its offset, keys and values.

Keys and values of Kafka's own topics say by their first bytes what they are, and control records by their batch and
key, so that a record of another type is never taken for the one that was asked for. Called by `explain.py`.

Source: `ConsumerProtocol`, `ControlRecordUtils` in Apache Kafka.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.names import near
from kafkawire.codegen.record_formats import RecordFormat
from kafkawire.commands.explaining.records import Row, cell_text, explain_format, explain_records
from kafkawire.sdk.errors import DecodeError, KafkaWireError, UnknownRecord, UnsupportedVersion
from kafkawire.sdk.protocol.engines.construct import trace
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import METADATA_FRAME_VERSION
from kafkawire.sdk.protocol.tables.record_types import FRAMED_RECORDS, KEYED_RECORDS
from kafkawire.sdk.records import Batch, MessageBatch, Record, walk, walk_headers
from kafkawire.sdk.records.control import BODIES, MARKERS, control_type
from kafkawire.sdk.records.internal_records import envelope

__all__ = ["ExplainedRecord", "LogSegment", "RecordPart", "explain_chosen", "is_batches", "one_record"]

_PREFIX_BYTES = 2

#: A number of a frame: its last byte is the first one without a sign.
_VARINT = re.compile(rb"[\x80-\xff]*[\0-\x7f]")

#: What only records of control batches hold.
_CONTROL_NAMES = {"ControlRecordKey", "ControlRecordTypeSchema", *BODIES.values()}

#: The internal topic of each message that is in one.
_TOPICS = {
    **{name: topic for topic, types in KEYED_RECORDS.items() for names in types.values() for name in names},
    **{name: topic for topic, types in FRAMED_RECORDS.items() for name in types.values()},
}


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


class RecordPart:
    """A type that keys or values are to be read as.

    Args:
        part: `key` or `value`.
        name: of a message, such as `OffsetCommitKey`, or a record format; `NAME:VERSION` for a message whose bytes do
            not begin with their version.
        formats: the record formats.

    Raises:
        ValueError: there is no such type, or its bytes do not say their version, and the name does not either.

    Attributes:
        is_control: whether only records of control batches have it; the others are never in one.
        others: how many records had another type, by its number.
    """

    def __init__(self, part: str, name: str, formats: Mapping[str, RecordFormat]) -> None:
        self.part = part
        self.name, _, version = name.partition(":")
        self.is_control = self.name in _CONTROL_NAMES
        self.others: Counter[int] = Counter()
        self._formats = formats
        self._version = int(version) if version.isdecimal() else None
        if self.name not in (*formats, *MODULES):
            hint = near(self.name, (*MODULES, *formats))
            raise ValueError(f"no message or record format is named {self.name!r}{hint}")
        self._class = None if self.name in formats else message_class(self.name)
        if version and self._version is None:
            raise ValueError(f"the version {version!r} of {self.name} is no number")
        if self._class is not None and self._version is None and self._class.SCHEMA.kind in _WITHOUT_VERSION:
            last = self._class.SCHEMA.versions.last
            raise ValueError(f"{self.name} does not begin with its version: name one, as {self.name}:{last}")

    def explain(self, key: bytes, value: bytes | None) -> tuple[list[Row], str] | None:
        """Return the rows of a record's key or value and what is wrong with it, or None if it is of another type."""
        data = key if self.part == "key" else value
        if data is None:
            return None
        if self._class is None:
            rows, error = explain_format(self._formats, self.name, data)
            return rows, str(error or "")
        if self._version is not None:
            return self._rows(self._class, self._version, data, 0, [])
        if self.name in _TOPICS:
            return self._internal(self._class, _TOPICS[self.name], key, data)
        return self._versioned(self._class, key, data)

    def _internal(self, cls: type[Message], topic: str, key: bytes, data: bytes) -> tuple[list[Row], str] | None:
        """Read a message of an internal topic, if the record has its type."""
        is_keyed = topic in KEYED_RECORDS
        try:
            kind, *_ = envelope(topic, key, None if is_keyed else data)
        except UnknownRecord as unknown:
            if unknown.type is None:
                return _unread(data, unknown)
            kind = unknown.type
        except DecodeError as error:
            return None if is_keyed else _unread(data, error)
        if kind is None or kind != cls.SCHEMA.key:
            self.others[-1 if kind is None else kind] += 1
            return None
        if cls.SCHEMA.kind == "coordinator-key":
            row = Row(0, data[:_PREFIX_BYTES], "type", str(kind))
            return self._rows(cls, cls.SCHEMA.versions.last, data, _PREFIX_BYTES, [row])
        try:
            _, version, _, start = envelope(topic, key, data)
        except DecodeError as error:
            return _unread(data, error)
        assert version is not None, "only a tombstone has none"
        numbers = {"version": version}
        starts = [0]
        if not is_keyed:
            numbers = {"frame_version": METADATA_FRAME_VERSION, "type": kind, "version": version}
            starts = [number.start() for number in _VARINT.finditer(data, 0, start)]
        bounds = pairwise([*starts, start])
        rows = [
            Row(at, data[at:end], name, str(numbers[name])) for name, (at, end) in zip(numbers, bounds, strict=True)
        ]
        return self._rows(cls, version, data, start, rows)

    def _versioned(self, cls: type[Message], key: bytes, data: bytes) -> tuple[list[Row], str] | None:
        """Read a message behind its version, as in the keys and values of control records and what members say."""
        if self.name in BODIES.values():
            try:
                kind = control_type(Record(0, 0, key, data))
            except DecodeError as error:
                return _unread(data, error)
            if BODIES.get(kind.type) != self.name:
                self.others[kind.number] += 1
                return None
            if kind.type not in MARKERS:  # those of KRaft have it inside, and are always read in their first version
                return self._rows(cls, cls.SCHEMA.versions.first, data, 0, [])
        if len(data) < _PREFIX_BYTES:
            return _unread(data, f"{_PREFIX_BYTES} bytes needed, {len(data)} left")
        version = int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
        return self._rows(cls, version, data, _PREFIX_BYTES, [Row(0, data[:_PREFIX_BYTES], "version", str(version))])

    def _rows(
        self, cls: type[Message], version: int, data: bytes, start: int, rows: list[Row]
    ) -> tuple[list[Row], str]:
        try:
            spans, error = trace(layout(cls, version), data, start)
        except UnsupportedVersion as unknown:
            return [*rows, Row(start, data[start:], "", "not read")], str(unknown)
        for span in spans:
            part = data[span.offset : span.offset + span.length]
            rows.append(Row(span.offset, part, span.path, cell_text(span.value)))
            start = span.offset + span.length
        if start < len(data):
            rows.append(Row(start, data[start:], "", "not read" if error else "behind the message"))
        return rows, str(error or "")


def _unread(data: bytes, reason: object) -> tuple[list[Row], str]:
    return [Row(0, data, "", "not read")], str(reason)


#: Kinds of messages whose bytes do not say their version.
_WITHOUT_VERSION = ("request", "response", "header")


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

    def bytes_of(self, batch: Batch) -> bytes:
        """Return the bytes of a batch."""
        return bytes(self._data[batch.position : batch.position + batch.size_in_bytes])

    def parts(
        self, wanted: tuple[RecordPart, ...], number: int | None = None, offset: int | None = None
    ) -> Iterator[ExplainedRecord]:
        """Yield what keys and values are.

        Args:
            wanted: the types to read them as.
            number: of a batch, for its records only.
            offset: of a record, for this one only.

        Raises:
            DecodeError: the file is no segment, or damaged.
        """
        for batch in self._chosen(number, offset):
            for record in batch.records():
                if offset in (None, record.offset):
                    yield from _explained(record, batch, wanted)

    def _chosen(self, number: int | None, offset: int | None) -> Iterator[Batch]:
        if offset is not None:
            yield self.batch_with(offset)
        elif number is not None:
            yield self.batch(number)
        else:
            yield from walk(self._data)


def _explained(record: Record, batch: Batch, wanted: tuple[RecordPart, ...]) -> Iterator[ExplainedRecord]:
    for part in wanted:
        if part.is_control != batch.is_control:
            continue
        found = part.explain(record.key or b"", record.value)
        if found is not None:
            yield ExplainedRecord(record.offset, batch.position, part.part, *found)


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
    segment: LogSegment, formats: Mapping[str, RecordFormat], number: int, offset: int | None
) -> tuple[Batch, list[Row], DecodeError | None]:
    """Return a batch and what its bytes are, of its records the one with an offset if that is given.

    Raises:
        DecodeError: the file is no segment, or damaged before the end of the batch.
        ValueError: there is no such batch, or no such record in it.
    """
    batch = segment.batch(number) if offset is None else segment.batch_with(offset)
    rows, error = explain_records(formats, segment.bytes_of(batch))
    if offset is not None and error is None and not isinstance(batch, MessageBatch):
        found = one_record(rows, offset, batch.base_offset)
        if found is None:
            raise ValueError(
                f"no record has offset {offset}: its batch, at byte {batch.position}, has "
                f"{batch.base_offset} to {batch.last_offset}, but not this one any more"
            )
        rows = found
    return batch, rows, error
