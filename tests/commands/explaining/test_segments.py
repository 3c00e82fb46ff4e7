"""Keys, values and records of a segment are found by type and offset, and nothing is taken for what it is not.

Method: segments with records of several types of Kafka's own topics, written by the codecs; the commands on them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire.protocol import Message, codec, message_class
from kafkawire.records import BatchBuilder, MessageSetBuilder
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.records.control.leader_change_message import LeaderChangeMessage
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.control import ControlKey, ControlRecord, end_transaction_marker
from tests.codegen_command import run


def keyed(name: str, **fields: Any) -> bytes:
    cls: Any = message_class(name)
    return struct.pack(">h", cls.SCHEMA.key) + codec(cls, cls.SCHEMA.versions.last).encode(cls(**fields))


def valued(message: Message, version: int) -> bytes:
    return struct.pack(">h", version) + codec(type(message), version).encode(message)


COMMITTED = [
    (keyed("OffsetCommitKey", group="g", topic="t", partition=3), valued(OffsetCommitValue(offset=77), 3)),
    (keyed("GroupMetadataKey", group="g"), valued(message_class("GroupMetadataValue")(), 3)),
    (keyed("OffsetCommitKey", group="h", topic="u", partition=0), None),
]


def batch(base_offset: int, records: list[tuple[bytes | None, bytes | None]], compression: Compression) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, compression=compression)
    for key, value in records:
        builder.append(1_700_000_000_000, key, value, ())
    return bytes(builder.seal())


@pytest.fixture(params=[Compression.NONE, Compression.ZSTD], ids=["plain", "zstd"])
def segment(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a segment of __consumer_offsets with two batches."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, COMMITTED, request.param) + batch(10, COMMITTED[:1], request.param))
    return path


def test_keys(segment: Path) -> None:
    output = run("explain", segment, "--key", "OffsetCommitKey")
    headings = [line for line in output.splitlines() if line.startswith("key of")]
    assert [heading.split(",")[0] for heading in headings] == [
        f"key of the record with offset {offset}" for offset in (0, 2, 10)
    ]
    assert "0       00 01        type       1\n2       00 01 67     group      'g'" in output
    assert run("explain", "--file", segment, "--key", "OffsetCommitKey") == output


def test_values(segment: Path) -> None:
    output = run("explain", segment, "--value", "OffsetCommitValue")
    assert output.count("value of the record") == 2  # the third has none
    assert "protocol_type" not in output  # which a value of GroupMetadata has
    words = " ".join(output.split())
    assert words.count(" version 3 2 00 00 00 00 00 00 00 4d offset 77 ") == 2


def test_keys_and_values_of_one_record(segment: Path) -> None:
    output = run("explain", segment, "--key", "OffsetCommitKey", "--value", "OffsetCommitValue", "--offset", 10)
    assert [line[:5] for line in output.splitlines() if "of the record" in line] == ["key o", "value"]
    assert "byte 0" not in output
    assert run("explain", segment, "--key", "OffsetCommitKey", "--batch", 1).count("key of") == 1


def test_a_type_that_is_not_there(segment: Path) -> None:
    output = run("explain", segment, "--key", "TransactionLogKey", code=1)
    assert f"{segment} has no record of type TransactionLogKey; there are types 1, 2" in output


def test_values_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    key = COMMITTED[0][0]
    path.write_bytes(batch(0, [(key, b"\0\3\0"), (key, b"\0\x63abc"), (key, b"\0"), (b"", b"")], Compression.NONE))
    output = run("explain", path, "--value", "OffsetCommitValue", code=1)
    assert "error: offset at byte 2: 8 bytes needed, 1 left" in output
    assert "error: OffsetCommitValue has no version 99" in output
    assert "error: value at byte 0: __consumer_offsets: a record has a value of at least 2 bytes, this one" in output


def test_records_of_the_metadata(tmp_path: Path) -> None:
    topic: Any = message_class("TopicRecord")()
    topic.name = "t"
    version = topic.SCHEMA.versions.last
    body = codec(type(topic), version).encode(topic)
    values = [bytes((1, topic.SCHEMA.key, version)) + body, bytes((1, 3, 0)) + b"\0", b"\x80" * 9, b""]
    path = tmp_path / "0.log"
    path.write_bytes(batch(0, [(None, value) for value in values[:2]], Compression.NONE))
    output = run("explain", path, "--value", "TopicRecord")
    assert output.count("value of the record") == 1
    assert "frame_version" in output
    assert "'t'" in output
    path.write_bytes(batch(0, [(None, value) for value in values], Compression.NONE))
    output = run("explain", path, "--value", "TopicRecord", code=1)
    assert "error: type at byte" not in output
    assert "error: frame version at byte 0: the number has more than 5 bytes" in output
    assert "error: frame version at byte 0: the number ends early" in output


def test_a_frame_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(0, [(None, b"\x02\x02\x00\x00")], Compression.NONE))
    output = run("explain", path, "--value", "TopicRecord", code=1)
    assert "error: value at byte 0: __cluster_metadata: frame version 2 is not known, 1 is" in output
    assert "name" not in output


def control_batch(base_offset: int, key: bytes, value: bytes | None) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, is_control=True)
    builder.append(1_700_000_000_000, key, value, ())
    return bytes(builder.seal())


LEADER = ControlRecord(ControlKey(0, 2), 0, LeaderChangeMessage(leader_id=77)).encode()


def test_markers_are_no_keys(tmp_path: Path) -> None:
    """The key of a marker begins as that of the oldest offsets, and a change of leader as a record of the metadata."""
    path = tmp_path / "0.log"
    key, value = end_transaction_marker(True, 5)
    path.write_bytes(batch(0, COMMITTED, Compression.NONE) + control_batch(3, key, value))
    output = run("explain", path, "--key", "LegacyOffsetCommitKey", code=1)
    assert f"{path} has no record of type LegacyOffsetCommitKey; there are types 1, 2" in output
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
    assert "there are types 2" in run("explain", path, "--value", "EndTxnMarker", code=1)


def test_a_control_record_without_a_type(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(control_batch(0, b"\0", LEADER[1] or b""))
    output = run("explain", path, "--value", "LeaderChangeMessage", code=1)
    assert "error: key at byte 0: a control record has a key of 4 bytes or more, not 1" in output


def test_types_that_do_not_say_their_version(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    message = HeartbeatRequest(group_id="g")
    path.write_bytes(batch(0, [(b"\0\0\0\1", codec(type(message), 4).encode(message))], Compression.NONE))
    assert "name one, as HeartbeatRequest:4" in run("explain", path, "--value", "HeartbeatRequest", code=1)
    assert "group_id" in run("explain", path, "--value", "HeartbeatRequest:4")
    assert "is no number" in run("explain", path, "--value", "HeartbeatRequest:x", code=1)


def test_near_names(segment: Path) -> None:
    assert "is it OffsetCommitKey?" in run("explain", segment, "--key", "OffsetComitKey", code=1)


@pytest.mark.parametrize("form", ["--file", "@", "stdin"])
def test_a_segment_is_no_key(segment: Path, form: str) -> None:
    """The header of a batch reads like a key with an empty group, but nobody committed that."""
    arguments = {"--file": ("--file", segment), "@": (f"@{segment}",), "stdin": ("-",)}[form]
    stdin = segment.read_bytes().hex() if form == "stdin" else ""
    output = run("explain", "OffsetCommitKey", 0, *arguments, code=1, stdin=stdin)
    assert output.startswith("error: ")
    assert "--key OffsetCommitKey`" in output
    assert output.count("\n") == 1


def test_a_damaged_segment_is_no_key(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    data[30] ^= 1
    segment.write_bytes(data)
    assert "--key OffsetCommitKey`" in run("explain", "OffsetCommitKey", 0, f"@{segment}", code=1)
    assert "checksum" in run("explain", segment, "--key", "OffsetCommitKey", code=1)


def test_a_batch_of_a_segment(segment: Path) -> None:
    assert run("explain", segment).splitlines()[0] == "batch at byte 0, offsets 0 to 2"
    assert run("explain", segment, "--batch", 1).splitlines()[0].endswith("offsets 10 to 10")
    assert "has no batch 2" in run("explain", segment, "--batch", 2, code=1)


def test_a_record_by_its_offset(segment: Path) -> None:
    output = run("explain", segment, "--offset", 1)
    assert "records[1].key" in output
    assert "records[0].key" not in output
    assert "base_offset" in output


@pytest.mark.parametrize(
    ("offset", "text"), [(5, "it begins with 0; 10 is the last one looked at"), (99, "10 is the last one looked at")]
)
def test_an_offset_that_is_not_there(segment: Path, offset: int, text: str) -> None:
    assert text in run("explain", segment, "--offset", offset, code=1)


def test_an_offset_that_compaction_removed(tmp_path: Path) -> None:
    data = bytearray(batch(0, COMMITTED, Compression.NONE))
    data[23:27] = struct.pack(">i", 5)
    path = tmp_path / "0.log"
    path.write_bytes(data)
    assert "no record has offset 4: its batch, at byte 0, has 0 to 5" in run("explain", path, "--offset", 4, code=1)


def test_message_sets(tmp_path: Path) -> None:
    builder = MessageSetBuilder(magic=1)
    for number in range(3):
        builder.append(1_700_000_000_000, b"%d" % number, b"value")
    path = tmp_path / "0.log"
    path.write_bytes(bytes(builder.build()))
    output = run("explain", path, "--offset", 1)
    assert "b'1'" in output
    assert "b'2'" not in output


def test_files_that_are_no_segment(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"")
    assert "has no batch 0" in run("explain", path, code=1)
    assert "it has no batch" in run("explain", path, "--offset", 0, code=1)
    path.write_bytes(b"2026-11-24 INFO started" * 9)
    for arguments in ((), ("--offset", 3), ("--key", "OffsetCommitKey")):
        output = run("explain", path, *arguments, code=1)
        assert output.startswith("error: ")
        assert output.count("\n") == 1
    assert "No such file" in run("explain", tmp_path / "nowhere.log", code=1)
    assert run("explain", "HeartbetRequest", 0, "--file", path, code=1).startswith("error: no message")
