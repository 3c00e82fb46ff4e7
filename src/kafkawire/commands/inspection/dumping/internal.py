"""Describe control records and records in internal topics, in the words of DumpLogSegments.

The topics are Kafka's and those in the user's schemas. Records that cannot be decoded are shown as stored. A record
written by a newer broker is not considered damaged.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Any

from kafkawire.commands.inspection.dumping.output import members_text
from kafkawire.commands.streams import printable
from kafkawire.sdk.errors import DecodeError, UnknownRecord
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import GroupMetadataValue
from kafkawire.sdk.protocol.messages.records.control.end_txn_marker import EndTxnMarker
from kafkawire.sdk.protocol.messages.records.control.leader_change_message import LeaderChangeMessage
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.control import control_record
from kafkawire.sdk.records.internal_records import KAFKA_RECORDS, InternalRecord, RecordTypes

__all__ = ["ContentDecoder"]

_VERSION = Struct(">h")
#: The messages encoded in the bytes that a member of a classic consumer group provides, keyed by their names in JSON.
_CONSUMER_PROTOCOL = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


class ContentDecoder:
    """Describes keys and values for `RecordLines`.

    Args:
        topic: the topic of the records.
        as_json: whether the lines are JSON.
        types: the record types of topics.

    Attributes:
        problems: the damage, with offsets, found since the caller last cleared this list.
    """

    def __init__(self, topic: str, as_json: bool, types: RecordTypes = KAFKA_RECORDS) -> None:
        self.problems: list[str] = []
        self._topic = topic
        self._as_json = as_json
        self._types = types

    def record(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes, bool]:
        """Return the description of a record of the topic, and whether it is complete."""
        try:
            found = self._types.decode(self._topic, key, value)
        except UnknownRecord as error:
            return self._unread("unknown", str(error)), False
        except DecodeError as error:
            self.problems.append(f"offset {offset}: {error}")
            return self._unread("undecoded", str(error)), False
        parts = _json_parts(found) if self._as_json else _text_parts(found)
        del found  # the object takes as much memory as its JSON, and is not needed again
        return b"".join(each if isinstance(each, bytes) else _dumped(each) for each in parts), True

    def control(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes, bool]:
        """Return the description of a control record, and whether it is complete."""
        try:
            found = control_record(Record(offset, 0, key, value))
        except DecodeError as error:
            self.problems.append(f"offset {offset}: {error}")
            return self._unread("undecoded", str(error)), False
        body = None if found.body is None else to_json(found.body, found.version)
        if self._as_json:
            members = {"type": found.key.name, "number": found.key.number, "version": found.version, "body": body}
            return b',"control":%s' % _dumped(members), body is not None
        if found.body is None:
            return b" controlType: %s(%d)" % (found.key.name.encode(), found.key.number), False
        if isinstance(found.body, EndTxnMarker):
            return b" endTxnMarker: %s %s" % (found.key.name.encode(), members_text(body or {}).encode()), True
        colon = b":" if isinstance(found.body, LeaderChangeMessage) else b""  # only here, as Kafka does
        return b" %s%s %s" % (_camel_case(found.key.name).encode(), colon, _dumped(body)), True

    def _unread(self, name: str, reason: str) -> bytes:
        if self._as_json:
            return b',"%s":%s' % (name.encode(), _dumped(reason))
        return f" {name}: ({printable(reason)})".encode(errors="backslashreplace")


def _json_parts(record: InternalRecord) -> list[bytes | dict[str, Any]]:
    """Return the members of a record's JSON object; some values are not text yet."""
    members: dict[str, Any] = {"type": record.type, "name": record.name}
    if record.key is not None:
        members["key"] = to_json(record.key, record.key.SCHEMA.known_versions.last)
    return [b',"decoded":', members | {"version": record.version, "value": _value(record)}]


def _text_parts(record: InternalRecord) -> list[bytes | dict[str, Any]]:
    """Return the parts that DumpLogSegments prints for a record; some JSON values are not text yet."""
    if record.key is None:
        if record.value is None:
            return []
        kind = _upper_case(record.name)
        return [b" payload: ", {"type": kind, "version": record.version, "data": _value(record)}]
    key = {"type": str(record.type), "data": to_json(record.key, record.key.SCHEMA.known_versions.last)}
    if record.value is None:
        return [b" key: ", key, b" payload: <DELETE>"]
    return [b" key: ", key, b" payload: ", {"version": str(record.version), "data": _value(record)}]


def _value(record: InternalRecord) -> dict[str, Any] | None:
    """Return the value as JSON; bytes that members of consumer groups provide are decoded too."""
    if record.value is None or record.version is None:
        return None
    found = to_json(record.value, record.version)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for member, shown in zip(record.value.members, found["members"], strict=True):
            for field, name in _CONSUMER_PROTOCOL.items():
                shown[field] = _consumer_protocol(name, bytes(getattr(member, field) or b""), shown[field])
    return found


def _consumer_protocol(name: str, data: bytes, otherwise: object) -> object:
    """Return the decoded bytes, or `otherwise` if they are not such a message, which Kafka allows."""
    if len(data) < _VERSION.size:
        return otherwise
    (version,) = _VERSION.unpack_from(data)
    if version not in message_class(name).SCHEMA.versions:
        return otherwise
    try:
        message, _ = program(name, version).decode(data, _VERSION.size)
    except DecodeError:
        return otherwise
    return to_json(message, version)


def _dumped(value: object) -> bytes:
    """Return JSON on one line that is safe for a terminal; return text unchanged."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode() if text.isprintable() else json.dumps(value, separators=(",", ":")).encode()


def _upper_case(name: str) -> str:
    return "".join(f"_{c}" if c.isupper() and index else c for index, c in enumerate(name)).upper()


def _camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")).replace("Kraft", "KRaft")
