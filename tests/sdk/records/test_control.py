"""Control records say what they are and give their bodies; kinds of later releases are passed over.

Method: a record of each kind through `encode` and back; keys and values that are none.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.codec import message_class
from kafkawire.sdk.protocol.messages.records.control.end_txn_marker import EndTxnMarker
from kafkawire.sdk.protocol.messages.records.control.k_raft_version_record import KRaftVersionRecord
from kafkawire.sdk.protocol.messages.records.control.leader_change_message import LeaderChangeMessage
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.control import (
    ControlKey,
    ControlRecord,
    control_record,
    control_type,
    end_transaction_marker,
)


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers(is_commit: bool) -> None:
    key, value = end_transaction_marker(is_commit, 7)
    assert (key, value) == (b"\x00\x00\x00" + bytes([is_commit]), b"\x00\x00\x00\x00\x00\x07")
    found = control_record(Record(0, 0, key, value))
    assert found.key.type is (ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT)
    assert found.body == EndTxnMarker(coordinator_epoch=7)


@pytest.mark.parametrize(
    ("kind", "version", "body"),
    [
        (ControlRecordType.LEADER_CHANGE, 0, LeaderChangeMessage(version=0, leader_id=3)),
        (ControlRecordType.LEADER_CHANGE, 1, LeaderChangeMessage(version=1, leader_id=3)),
        (ControlRecordType.KRAFT_VERSION, 0, KRaftVersionRecord(version=0, k_raft_version=1)),
    ],
)
def test_records_of_kraft(kind: ControlRecordType, version: int, body: Message) -> None:
    written = ControlRecord(ControlKey(0, kind), version, body)
    assert control_record(Record(0, 0, *written.encode())) == written


def test_a_kind_of_a_later_release() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x63more", b"?")
    assert control_type(record) == ControlKey(1, 99)
    found = control_record(record)
    assert (found.key.name, found.body) == ("UNKNOWN", None)
    assert found.encode() == (b"\x00\x01\x00\x63", None)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_refused_keys(key: bytes | None) -> None:
    with pytest.raises(DecodeError, match=r"^key at byte 0: "):
        control_type(Record(0, 0, key, b""))


@pytest.mark.parametrize("value", [None, b"", b"\x00", b"\x00\x00\x00"])
def test_refused_values(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        control_record(Record(0, 0, b"\x00\x00\x00\x01", value))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ControlRecordType.SNAPSHOT_HEADER, "SnapshotHeaderRecord"),
        (ControlRecordType.SNAPSHOT_FOOTER, "SnapshotFooterRecord"),
        (ControlRecordType.KRAFT_VOTERS, "VotersRecord"),
    ],
)
def test_each_kind_has_its_own_message(kind: ControlRecordType, name: str) -> None:
    key, value = ControlRecord(ControlKey(0, kind), 0, message_class(name)()).encode()
    assert type(control_record(Record(0, 0, key, value)).body).__name__ == name
