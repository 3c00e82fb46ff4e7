"""A key or value is read as the requested type if it has that type, and mistakes are reported.

Method: run the command on segments with records of several types, from Kafka's own topics and from a user's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.protocol import codec, message_class
from kafkawire.records import BatchBuilder
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.records.control.leader_change_message import LeaderChangeMessage
from kafkawire.sdk.records.control import ControlKey, ControlRecord, end_transaction_marker
from tests.codegen_command import run, write_record_schemas
from tests.commands.inspection.explaining.segment_bench import COMMITTED, batch


def control_batch(base_offset: int, key: bytes, value: bytes | None) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, is_control=True)
    builder.append(1_700_000_000_000, key, value, ())
    return bytes(builder.seal())


def committed(folder: Path) -> Path:
    path = folder / "0.log"
    path.write_bytes(batch(0, COMMITTED))
    return path


LEADER = ControlRecord(ControlKey(0, 2), 0, LeaderChangeMessage(leader_id=77)).encode()


def test_values_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    key = COMMITTED[0][0]
    path.write_bytes(batch(0, [(key, b"\0\3\0"), (key, b"\0\x63abc"), (key, b"\0"), (b"", b"")]))
    output = run("explain", path, "--value", "OffsetCommitValue", code=1)
    assert "error: offset at byte 2: 8 bytes are needed, but 1 are left" in output
    assert "error: OffsetCommitValue has no version 99" in output
    assert "name one" not in output
    assert "error: 2 bytes are needed, but 1 are left" in output


def test_records_of_the_metadata(tmp_path: Path) -> None:
    topic: Any = message_class("TopicRecord")()
    topic.name = "t"
    version = topic.SCHEMA.versions.last
    body = codec(type(topic), version).encode(topic)
    values = [bytes((1, topic.SCHEMA.key, version)) + body, bytes((1, 3, 0)) + b"\0", b"\x80" * 9, b""]
    path = tmp_path / "0.log"
    path.write_bytes(batch(0, [(None, value) for value in values[:2]]))
    output = run("explain", path, "--value", "TopicRecord")
    assert output.count("value of the record") == 1
    assert "frame_version" in output
    assert "'t'" in output
    path.write_bytes(batch(0, [(None, value) for value in values]))
    output = run("explain", path, "--value", "TopicRecord", code=1)
    assert "error: type at byte" not in output
    assert "error: frame version at byte 0: the number has more than 5 bytes" in output
    assert "error: frame version at byte 0: the number ends early" in output


def test_a_frame_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(0, [(None, b"\x02\x02\x00\x00")]))
    output = run("explain", path, "--value", "TopicRecord", code=1)
    assert "error: value at byte 0: TopicRecord: frame version 2 is unknown; expected 1" in output
    assert "name" not in output


def test_markers_are_no_keys(tmp_path: Path) -> None:
    """A marker's key begins like the oldest kind of offset key, and a leader change begins like a metadata record."""
    path = tmp_path / "0.log"
    key, value = end_transaction_marker(True, 5)
    path.write_bytes(batch(0, COMMITTED) + control_batch(3, key, value))
    output = run("explain", path, "--key", "LegacyOffsetCommitKey", code=1)
    assert (
        f"{path} has no record of type LegacyOffsetCommitKey; it has types 1 (OffsetCommit), 2 (GroupMetadata)"
        in output
    )
    output = run("explain", path, "--value", "EndTxnMarker", "--key", "ControlRecordKey")
    assert [line for line in output.splitlines() if "of the record" in line] == [
        f"{part} of the record with offset 3, in the batch at byte {path.stat().st_size - 78}"
        for part in ("key", "value")
    ]
    assert "coordinator_epoch  5" in output
    path.write_bytes(control_batch(0, *LEADER))
    assert f"{path} has no record of type RegisterBrokerRecord" in run(
        "explain", path, "--value", "RegisterBrokerRecord", code=1
    )
    assert "leader_id 77 " in " ".join(run("explain", path, "--value", "LeaderChangeMessage").split())
    assert "it has types 2 (LEADER_CHANGE)" in run("explain", path, "--value", "EndTxnMarker", code=1)


def test_a_control_record_without_a_type(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(control_batch(0, b"\0", LEADER[1] or b""))
    output = run("explain", path, "--value", "LeaderChangeMessage", code=1)
    assert "error: key at byte 0: the key of a control record must have at least 4 bytes, got 1" in output


def test_types_that_do_not_say_their_version(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    message = HeartbeatRequest(group_id="g")
    path.write_bytes(batch(0, [(b"\0\0\0\1", codec(type(message), 4).encode(message))]))
    assert "specify one, as in HeartbeatRequest:4" in run("explain", path, "--value", "HeartbeatRequest", code=1)
    assert "group_id" in run("explain", path, "--value", "HeartbeatRequest:4")
    assert "is not a number" in run("explain", path, "--value", "HeartbeatRequest:x", code=1)


def test_names_of_records(tmp_path: Path) -> None:
    """`kafkawire dump` shows the same names for keys and values."""
    path = committed(tmp_path)
    short = run("explain", path, "--key", "OffsetCommit", "--value", "OffsetCommit")
    assert short == run("explain", path, "--key", "OffsetCommitKey", "--value", "OffsetCommitValue")
    assert "did you mean OffsetCommitKey?" in run("explain", path, "--key", "OffsetComitKey", code=1)


#: Records of the types that `write_record_schemas` describes: a visit, its removal, a lamp and an invoice.
VISIT, LEFT, LAMP, INVOICE = (
    (b"\0\x09\0\x03Ada", b"\0\1\0\0\0\x4d\0"),
    (b"\0\x09\0\x03Bob", None),
    (None, b"\1\x2a\0\0\0\0\7\0"),
    (b"7", b"\0\0\0\0\0\0\1\0"),
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder of schemas; next to it is a segment for each record of a user's own type."""
    for name, record in (("visit", VISIT), ("left", LEFT), ("invoice", INVOICE)):
        (tmp_path / f"{name}.log").write_bytes(batch(0, [*COMMITTED, record]))
    (tmp_path / "lamp.log").write_bytes(batch(0, [(None, b"\1\x2b\0\0"), LAMP]))
    return write_record_schemas(tmp_path / "schemas")


@pytest.mark.parametrize(
    ("segment", "arguments", "words"),
    [
        ("visit", "--key VisitKey", "key of the record with offset 3 | 00 09 type 9 | 2 00 03 41 64 61 visitor 'Ada'"),
        ("visit", "--value VisitValue", "value of the record with offset 3 | version 1 | 00 00 00 4d minutes 77"),
        ("left", "--key VisitKey", "visitor 'Bob'"),
        ("lamp", "--value LampRecord", "01 frame_version 1 | 2a type 42 | 00 version 0 | 3 00 00 00 07 lamp_id 7"),
        ("invoice", "--value Invoice:0 --offset 3", "0 00 00 00 00 00 00 01 00 cents 256"),
        ("visit", "--key OffsetCommitKey", "group 'g' | group 'h'"),
    ],
)
def test_records_of_ones_own(own: Path, segment: str, arguments: str, words: str) -> None:
    output = run("explain", own.parent / f"{segment}.log", "--schemas", own, *arguments.split())
    text = " ".join(output.split())
    assert all(each in text for each in words.split(" | ")), output


def test_records_of_ones_own_that_are_not_there(own: Path) -> None:
    output = run("explain", own.parent / "left.log", "--schemas", own, "--value", "VisitValue", code=1)
    assert "left.log has no record of type VisitValue; it has types 1, 2" in output
    output = run("explain", own.parent / "visit.log", "--schemas", own, "--key", "TransactionLog", code=1)
    assert "it has types 1, 2, 9" in output
    assert "did you mean VisitKey?" in run(
        "explain", own.parent / "left.log", "--schemas", own, "--key", "VistKey", code=1
    )
    assert "unknown message or record format 'VisitKey'" in run(
        "explain", own.parent / "left.log", "--key", "VisitKey", code=1
    )


def test_a_value_without_a_version_asks_for_one(own: Path) -> None:
    path = own.parent / "0.log"
    path.write_bytes(batch(0, [(None, bytes.fromhex("0102030405060708"))]))
    output = run("explain", path, "--schemas", own, "--value", "Invoice", code=1)
    assert "Invoice has no version 258" in output
    assert "if Invoice does not begin with its version, specify one, as in Invoice:0" in output


@pytest.mark.parametrize(
    ("option", "name", "text"),
    [
        ("--key", "OffsetCommitValue", "OffsetCommitValue is in a record's value, not in its key; use --value"),
        ("--value", "OffsetCommitKey", "OffsetCommitKey is in a record's key, not in its value; use --key Off"),
        ("--key", "TopicRecord", "TopicRecord is in a record's value, not in its key; use --value TopicRecord"),
    ],
)
def test_the_other_part_of_a_record(tmp_path: Path, option: str, name: str, text: str) -> None:
    assert text in run("explain", committed(tmp_path), option, name, code=1)
