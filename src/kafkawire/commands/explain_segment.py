"""Find something in a log segment and say what its bytes are: a batch, a record by its offset, keys and values.

Keys and values of Kafka's own topics say by their first bytes what they are; `RecordPart` knows how each kind of type
does, so that a record of another type is never taken for the one that was asked for. Called by `explain.py`.

Source: `CoordinatorRecordSerde`, `MetadataRecordSerde`, `ConsumerProtocol`, `ControlRecordUtils` in Apache Kafka.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.names import near
from kafkawire.codegen.record_formats import RecordFormat
from kafkawire.commands.explain_records import Row, explain_format, explain_records, value_text
from kafkawire.sdk.errors import DecodeError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.protocol.engines.construct import trace
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message, Schema
from kafkawire.sdk.records import Batch, MessageBatch, Record, walk, walk_headers

__all__ = ["ExplainedRecord", "RecordPart", "Segment", "explain_chosen", "is_batches", "one_record"]

_PREFIX_BYTES = 2

#: Bits of a varint's byte that are of the number, and the bytes of the largest.
_VARINT_BITS, _VARINT_BYTES_MAX = 7, 5


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
        others: how many records had another type, by its number.
    """

    def __init__(self, part: str, name: str, formats: Mapping[str, RecordFormat]) -> None:
        self.part = part
        self.name, _, version = name.partition(":")
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
        schema = self._class.SCHEMA
        if self._version is not None:
            return self._rows(self._class, self._version, data, 0, [])
        if schema.kind in ("coordinator-key", "coordinator-value"):
            number = int.from_bytes(key[:_PREFIX_BYTES], "big", signed=True)
            if len(key) < _PREFIX_BYTES or number != schema.key:
                self.others[number if len(key) >= _PREFIX_BYTES else -1] += 1
                return None
        if schema.kind == "metadata":
            return self._metadata(self._class, schema, data)
        if len(data) < _PREFIX_BYTES:
            return [Row(0, data, "", "not read")], f"{_PREFIX_BYTES} bytes needed, {len(data)} left"
        number = int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
        is_key = schema.kind == "coordinator-key"
        row = Row(0, data[:_PREFIX_BYTES], "type" if is_key else "version", str(number))
        return self._rows(self._class, schema.versions.last if is_key else number, data, _PREFIX_BYTES, [row])

    def _metadata(self, cls: type[Message], schema: Schema, data: bytes) -> tuple[list[Row], str] | None:
        """Read a record of the cluster's metadata: version of the frame, type, version, each a varint."""
        rows: list[Row] = []
        start = 0
        numbers = []
        for name in ("frame_version", "type", "version"):
            number, end = _varint(data, start)
            numbers.append(number)
            rows.append(Row(start, data[start:end], name, str(number)))
            start = end
        if numbers[1] != schema.key:
            self.others[numbers[1]] += 1
            return None
        return self._rows(cls, numbers[2], data, start, rows)

    def _rows(
        self, cls: type[Message], version: int, data: bytes, start: int, rows: list[Row]
    ) -> tuple[list[Row], str]:
        try:
            spans, error = trace(layout(cls, version), data, start)
        except UnsupportedVersion as unknown:
            return [*rows, Row(start, data[start:], "", "not read")], str(unknown)
        for span in spans:
            part = data[span.offset : span.offset + span.length]
            rows.append(Row(span.offset, part, span.path, value_text(span.value)))
            start = span.offset + span.length
        if start < len(data):
            rows.append(Row(start, data[start:], "", "not read" if error else "behind the message"))
        return rows, str(error or "")


#: Kinds of messages whose bytes do not say their version.
_WITHOUT_VERSION = ("request", "response", "header")


class Segment:
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


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return an unsigned number, seven bits a byte, and where it ends."""
    number = 0
    for index, byte in enumerate(data[start : start + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (_VARINT_BITS * index)
        if byte < 0x80:
            return number, start + index + 1
    raise DecodeError("type", start, "no varint of at most 5 bytes")


def explain_chosen(
    segment: Segment, formats: Mapping[str, RecordFormat], number: int, offset: int | None
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
