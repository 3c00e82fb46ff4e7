"""Read those keys and values of records that have a given type.

Records in Kafka's internal topics and in similar topics are identified by their first bytes, and control records by
their batch and key. A record of another type is therefore never mistaken for one of the requested type. `segments.py`
finds the records.

Source: `ConsumerProtocol`, `ControlRecordUtils` in Apache Kafka.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.names import shown
from kafkawire.codegen.record_formats import RecordFormat
from kafkawire.commands.inspection.explaining.records import Row, bounded, cell_text, explain_format
from kafkawire.commands.inspection.own_schemas import load_message, record_types_of
from kafkawire.sdk.errors import DecodeError, UnsupportedVersion
from kafkawire.sdk.protocol.engines.construct import trace
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import METADATA_FRAME_VERSION, ControlRecordType
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.control import BODIES, MARKERS, control_type
from kafkawire.sdk.records.internal_records import read_frame

__all__ = ["RecordPart"]

_PREFIX_BYTES = 2

#: A varint in a frame; its last byte is the first one whose highest bit is clear.
_VARINT = re.compile(rb"[\x80-\xff]*[\0-\x7f]")

#: The messages that occur only in control batches.
_CONTROL_NAMES = {"ControlRecordKey", "ControlRecordTypeSchema", *BODIES.values()}

#: The part of a record that holds messages of a given kind; other kinds can be in either part.
_PARTS = {"coordinator-key": "key", "coordinator-value": "value", "metadata": "value"}

#: Kinds of messages whose bytes do not include their version.
_WITHOUT_VERSION = ("request", "response", "header")


class RecordPart:
    """A type of keys or values to read.

    Args:
        part: `key` or `value`.
        name: the name of a message, such as `OffsetCommitKey`, of a record, such as `OffsetCommit`, or of a record
            format; `NAME:VERSION` for a message whose bytes do not begin with their version.
        formats: the record formats.
        schemas: kafkawire's own schemas, or another folder, whose messages are added to Kafka's.

    Raises:
        SchemaError: a schema is wrong.
        ValueError: the type does not exist, it belongs in the other part of a record, or its version is neither in its
            bytes nor in the name.

    Attributes:
        is_control: whether the type occurs only in control batches, which never contain other types.
        others: the number of records of each other type.
    """

    def __init__(self, part: str, name: str, formats: Mapping[str, RecordFormat], schemas: Path = SCHEMAS) -> None:
        self.part = part
        given, _, version = name.partition(":")
        self._class = None if given in formats else _class_of(part, given, schemas)
        self.name = given if self._class is None else self._class.SCHEMA.name
        self.is_control = self.name in _CONTROL_NAMES
        self.others: Counter[int] = Counter()
        self._formats = formats
        self._schemas = schemas
        self._version = int(version) if version.isdecimal() else None
        if version and self._version is None:
            raise ValueError(f"the version {shown(version)} of {self.name} is not a number")
        if self._class is None:
            return
        schema = self._class.SCHEMA
        if self._version is None and schema.kind in _WITHOUT_VERSION:
            last = schema.versions.last
            raise ValueError(f"{self.name} does not begin with its version; specify one, as in {self.name}:{last}")
        if (owner := _PARTS.get(schema.kind, part)) != part:
            raise ValueError(f"{self.name} is in a record's {owner}, not in its {part}; use --{owner} {self.name}")

    def other_types(self) -> list[str]:
        """Return the other types that were found, by number and name."""
        names = {each.value: each.name for each in ControlRecordType}
        if not self.is_control:
            names = record_types_of(self._schemas).names_beside(self.name)
        return [f"{kind} ({names[kind]})" if kind in names else str(kind) for kind in sorted(self.others)]

    def explain(self, key: bytes, value: bytes | None) -> tuple[list[Row], str] | None:
        """Return the rows and the error for a record's key or value, or None if it has another type."""
        data = key if self.part == "key" else value
        if data is None:
            return None
        if self._class is None:
            rows, error = explain_format(self._formats, self.name, data)
            return rows, str(error or "")
        if self._version is not None:
            return self._rows(self._class, self._version, data, 0, [])
        match self._class.SCHEMA.kind:
            case "coordinator-key" | "coordinator-value":
                return self._keyed(self._class, key, data)
            case "metadata":
                return self._framed(self._class, data)
        return self._control(self._class, key, data) if self.name in BODIES.values() else self._behind(data)

    def _keyed(self, cls: type[Message], key: bytes, data: bytes) -> tuple[list[Row], str] | None:
        """Read a coordinator's key or value if the record has this type, with which its key begins."""
        if len(key) < _PREFIX_BYTES or self._is_other(cls, kind := _int16(key)):
            return None
        if self.part == "value":
            return self._behind(data)
        row = Row(0, data[:_PREFIX_BYTES], "type", str(kind))
        return self._rows(cls, cls.SCHEMA.known_versions.last, data, _PREFIX_BYTES, [row])

    def _framed(self, cls: type[Message], data: bytes) -> tuple[list[Row], str] | None:
        """Read a message in a frame, if the frame has this type."""
        try:
            kind, version, start = read_frame(self.name, data)
        except DecodeError as error:
            return _unread(data, error)
        if self._is_other(cls, kind):
            return None
        numbers = {"frame_version": METADATA_FRAME_VERSION, "type": kind, "version": version}
        bounds = pairwise([*(number.start() for number in _VARINT.finditer(data, 0, start)), start])
        rows = [
            Row(at, data[at:end], name, str(numbers[name])) for name, (at, end) in zip(numbers, bounds, strict=True)
        ]
        return self._rows(cls, version, data, start, rows)

    def _control(self, cls: type[Message], key: bytes, data: bytes) -> tuple[list[Row], str] | None:
        """Read the body of a control record, if its key has this type."""
        try:
            kind = control_type(Record(0, 0, key, data))
        except DecodeError as error:
            return _unread(data, error)
        if BODIES.get(kind.type) != self.name:
            self.others[kind.number] += 1
            return None
        if kind.type in MARKERS:
            return self._behind(data)
        # KRaft's records contain their own version, but are always parsed as the first one.
        return self._rows(cls, cls.SCHEMA.versions.first, data, 0, [])

    def _behind(self, data: bytes) -> tuple[list[Row], str]:
        """Read a message that follows its version, as in the data of group members and in transaction markers."""
        assert self._class is not None, "a record format has no version"
        if len(data) < _PREFIX_BYTES:
            return _unread(data, f"{_PREFIX_BYTES} bytes are needed, but {len(data)} are left")
        version = _int16(data)
        row = Row(0, data[:_PREFIX_BYTES], "version", str(version))
        rows, error = self._rows(self._class, version, data, _PREFIX_BYTES, [row])
        schema = self._class.SCHEMA
        if version not in schema.known_versions and schema.kind not in _PARTS:
            last = schema.known_versions.last
            error += f"; if {self.name} does not begin with its version, specify one, as in {self.name}:{last}"
        return rows, error

    def _is_other(self, cls: type[Message], kind: int) -> bool:
        """Return whether a record has another type, and count that type."""
        if kind == cls.SCHEMA.key:
            return False
        self.others[kind] += 1
        return True

    def _rows(
        self, cls: type[Message], version: int, data: bytes, start: int, rows: list[Row]
    ) -> tuple[list[Row], str]:
        try:
            spans, error = trace(layout(cls, version), data, start)
        except UnsupportedVersion as unknown:
            return [*rows, Row(start, data[start:], "", "not read")], str(unknown)
        parts = ((span, data[span.offset : span.offset + span.length]) for span in spans)
        rows += bounded((Row(span.offset, part, span.path, cell_text(span.value)) for span, part in parts), data)
        start = rows[-1].offset + len(rows[-1].data) if spans else start
        if start < len(data):
            rows.append(Row(start, data[start:], "", "not read" if error else "after the message"))
        return rows, str(error or "")


def _class_of(part: str, name: str, schemas: Path) -> type[Message]:
    try:
        return load_message(f"{name}{part.capitalize()}", schemas)
    except ValueError:
        return load_message(name, schemas)


def _int16(data: bytes) -> int:
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)


def _unread(data: bytes, reason: object) -> tuple[list[Row], str]:
    return [Row(0, data, "", "not read")], str(reason)
