"""Control records, which coordinators and KRaft leaders write among the records of applications.

The key says which kind of record it is; readers skip kinds that they do not know. The value is a message from
`schemas/records/control/`. A marker of a later version is read as one of the highest known version. The bodies of
KRaft's records are read and written in their first version, whatever version they state: Kafka 4.3 defines a second
version of LeaderChange but does not use it.

Source: `ControlRecordType`, `ControlRecordUtils`, `EndTransactionMarker`, `MemoryRecordsBuilder` in Apache Kafka.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.messages.records.control.end_txn_marker import EndTxnMarker
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.protocol.tables.record_formats import CONTROL_KEY_HEADER
from kafkawire.sdk.records.record import Record

__all__ = [
    "BODIES",
    "MARKERS",
    "ControlKey",
    "ControlRecord",
    "control_record",
    "control_type",
    "end_transaction_marker",
]

#: The message in the value, by kind. KRaft's messages begin with their version; a marker is preceded by its version.
BODIES = {
    ControlRecordType.ABORT: "EndTxnMarker",
    ControlRecordType.COMMIT: "EndTxnMarker",
    ControlRecordType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlRecordType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlRecordType.KRAFT_VOTERS: "VotersRecord",
}
#: The kinds that end a transaction.
MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
_VERSION = struct.Struct(">h")


class ControlKey(NamedTuple):
    """The key of a control record.

    Attributes:
        version: the version of the key's layout.
        number: the kind of record, as on the wire.
    """

    version: int
    number: int

    @property
    def type(self) -> ControlRecordType:
        """The kind; UNKNOWN for a number from a later release."""
        try:
            return ControlRecordType(self.number)
        except ValueError:
            return ControlRecordType.UNKNOWN

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.type.name


class ControlRecord(NamedTuple):
    """A control record, decoded.

    Attributes:
        key: the record's key.
        version: the version of the body's layout.
        body: the message in its value; None if the kind is not known.
    """

    key: ControlKey
    version: int
    body: Message | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return the key and the value.

        Raises:
            EncodeError: the body cannot be written, or Kafka would not read it as this version.
        """
        key = CONTROL_KEY_HEADER.pack(self.key.version, self.key.number)
        if self.body is None:
            return key, None
        if self.key.type in MARKERS:
            return key, _VERSION.pack(self.version) + program(type(self.body), self.version).encode(self.body)
        if self.version != (first := self.body.SCHEMA.versions.first):
            raise EncodeError(
                "version",
                f"{self.version} cannot be written: a {self.key.name} record is always read as version {first}",
            )
        return key, program(type(self.body), self.version).encode(self.body)


def control_type(record: Record) -> ControlKey:
    """Return the decoded key of a control record.

    Raises:
        DecodeError: the bytes are not such a key.
    """
    if record.key is None or len(record.key) < CONTROL_KEY_HEADER.size:
        size = None if record.key is None else len(record.key)
        raise DecodeError(
            "key", 0, f"the key of a control record must have at least {CONTROL_KEY_HEADER.size} bytes, got {size}"
        )
    key = ControlKey(*CONTROL_KEY_HEADER.unpack_from(record.key))
    if key.version < 0:
        raise DecodeError("key", 0, f"unknown version {key.version} of a control record's key")
    return key


def control_record(record: Record) -> ControlRecord:
    """Decode a record of a control batch in the version that Kafka uses, ignoring bytes after the body.

    Raises:
        DecodeError: key or value does not belong to a control record.
    """
    key = control_type(record)
    name = BODIES.get(key.type)
    if name is None:
        return ControlRecord(key, 0, None)
    value = record.value or b""
    if len(value) < _VERSION.size:
        reason = f"the value of a control record must begin with a version, but has only {len(value)} bytes"
        raise DecodeError("value", 0, reason)
    versions = message_class(name).SCHEMA.versions
    if key.type not in MARKERS:
        body, _ = program(name, versions.first).decode(value)
        return ControlRecord(key, versions.first, body)
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise DecodeError("value", 0, f"unknown version {version} of a transaction marker")
    version = min(version, versions.last)
    body, _ = program(name, version).decode(value, _VERSION.size)
    return ControlRecord(key, version, body)


def end_transaction_marker(is_commit: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Return the key and the value of the record that ends a transaction.

    Args:
        is_commit: True to commit, False to abort.
        coordinator_epoch: the transaction coordinator's epoch.
    """
    kind = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
    body = EndTxnMarker(coordinator_epoch=coordinator_epoch)
    version = EndTxnMarker.SCHEMA.versions.first
    key, value = ControlRecord(ControlKey(0, kind), version, body).encode()
    return key, value or b""
