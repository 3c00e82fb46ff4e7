"""Control records name their types and return their bodies; types from later releases are skipped.

Method: encode a record of each type and decode it again; decode bytes that Apache Kafka's classes read or refuse, and
keys and values that do not have this format.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.messages.records.control.end_txn_marker import EndTxnMarker
from kafkawire.sdk.protocol.messages.records.control.k_raft_version_record import KRaftVersionRecord
from kafkawire.sdk.protocol.messages.records.control.leader_change_message import LeaderChangeMessage
from kafkawire.sdk.protocol.messages.records.control.snapshot_footer_record import SnapshotFooterRecord
from kafkawire.sdk.protocol.messages.records.control.snapshot_header_record import SnapshotHeaderRecord
from kafkawire.sdk.protocol.messages.records.control.voters_record import VotersRecord
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import Record, walk
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


@pytest.mark.parametrize("value", ["000000000007", "000100000007", "7fff00000007abcd", "00000000000799"])
def test_a_marker_of_a_later_version_is_read_as_the_highest_known(value: str) -> None:
    """Like `EndTransactionMarker.deserialize`, the decoder ignores any bytes after the fields that it knows."""
    found = control_record(Record(0, 0, b"\x00\x00\x00\x01", bytes.fromhex(value)))
    assert (found.version, found.body) == (0, EndTxnMarker(coordinator_epoch=7))
    assert found.encode()[1] == bytes.fromhex("000000000007")


def test_a_marker_of_a_later_version_in_a_batch() -> None:
    """Apache Kafka reads this batch as a commit by coordinator epoch 7."""
    batch = bytes.fromhex(
        "000000000000000000000042ffffffff025995e2e900200000000000000000000000050000000000000005ffffffffffffffffffffffffffff"
        "000000012000000008000000010c00010000000700"
    )
    (record,) = next(walk(batch)).records()
    found = control_record(record)
    assert (found.key.name, found.body) == ("COMMIT", EndTxnMarker(coordinator_epoch=7))


@pytest.mark.parametrize(
    ("kind", "value", "body"),
    [
        (
            ControlRecordType.LEADER_CHANGE,
            "{:04x}0000000302000000040002000000050000",
            partial(
                LeaderChangeMessage,
                leader_id=3,
                voters=(LeaderChangeMessage.Voter(voter_id=4),),
                granting_voters=(LeaderChangeMessage.Voter(voter_id=5),),
            ),
        ),
        (
            ControlRecordType.SNAPSHOT_HEADER,
            "{:04x}000000000000000500",
            partial(SnapshotHeaderRecord, last_contained_log_timestamp=5),
        ),
        (ControlRecordType.SNAPSHOT_FOOTER, "{:04x}00", SnapshotFooterRecord),
        (ControlRecordType.KRAFT_VERSION, "{:04x}000100", partial(KRaftVersionRecord, k_raft_version=1)),
        (ControlRecordType.KRAFT_VOTERS, "{:04x}0100", VotersRecord),
    ],
)
@pytest.mark.parametrize("version", [0, 1, 2, 0x7FFF])
def test_records_of_kraft_have_their_first_layout_whatever_version_they_state(
    kind: ControlRecordType, value: str, body: Callable[..., Message], version: int
) -> None:
    """`ControlRecordUtils` reads the bodies in the same way; the version remains as a field."""
    written = kind.to_bytes(4, "big"), bytes.fromhex(value.format(version))
    found = control_record(Record(0, 0, *written))
    assert found == ControlRecord(ControlKey(0, kind), 0, body(version=version))
    assert found.encode() == written


def test_the_second_layout_of_a_leader_change_is_refused() -> None:
    """Kafka 4.3 defines this layout, but neither writes nor reads it; its reader finds a null array in its place."""
    body = LeaderChangeMessage(
        version=1,
        leader_id=1,
        voters=(LeaderChangeMessage.Voter(voter_id=1),),
        granting_voters=(LeaderChangeMessage.Voter(voter_id=1),),
    )
    key = ControlKey(0, ControlRecordType.LEADER_CHANGE)
    with pytest.raises(DecodeError, match="granting_voters at byte 12: null is not allowed"):
        control_record(Record(0, 0, key.number.to_bytes(4, "big"), program(LeaderChangeMessage, 1).encode(body)))
    with pytest.raises(EncodeError, match="1 cannot be written: a LEADER_CHANGE record is always read as version 0"):
        ControlRecord(key, 1, body).encode()


def test_a_kind_of_a_later_release() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x63more", b"?")
    assert control_type(record) == ControlKey(1, 99)
    found = control_record(record)
    assert (found.key.name, found.version, found.body) == ("UNKNOWN", 0, None)
    assert found.encode() == (b"\x00\x01\x00\x63", None)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_refused_keys(key: bytes | None) -> None:
    with pytest.raises(DecodeError, match=r"^key at byte 0: "):
        control_type(Record(0, 0, key, b""))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "value at byte 0: the value of a control record must begin with a version, but has only 0 bytes"),
        (b"", "value at byte 0: the value of a control record must begin with a version, but has only 0 bytes"),
        (b"\x00", "value at byte 0: the value of a control record must begin with a version, but has only 1 bytes"),
        (b"\x00\x00\x00", "coordinator_epoch at byte 2: 4 bytes are needed, but 1 are left"),
        (b"\xff\xff\x00\x00\x00\x07", "value at byte 0: unknown version -1 of a transaction marker"),
    ],
)
def test_refused_values(value: bytes | None, error: str) -> None:
    with pytest.raises(DecodeError, match=f"^{error}$"):
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
