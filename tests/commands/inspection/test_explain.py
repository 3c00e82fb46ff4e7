"""For Kafka's schemas and a user's own, `explain` describes each byte, and `show` describes the layout of a version.

Method: run the functions on golden vectors, with every byte covered; run the commands in this process, on hexadecimal
text, stdin, files and segments, and with mistakes, which give a one-line error.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.commands.inspection.explain import explain_batch, explain_message
from kafkawire.commands.inspection.explaining import records
from kafkawire.commands.inspection.explaining.records import Row
from kafkawire.commands.inspection.own_schemas import load_message
from kafkawire.commands.schemas.codegen import app
from kafkawire.commands.terminal import run_app
from kafkawire.records import MessageSetBuilder
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import BatchBuilder, Compression
from tests.codegen_command import OWN, run

VECTORS = SCHEMAS.parent / "conformance" / "vectors"


def batch(base_offset: int = 0, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, compression=compression)
    builder.append(1_700_000_000_000, b"key", b"value", ())
    return bytes(builder.seal())


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder with a user's own schema."""
    (tmp_path / "greet.yaml").write_text(OWN)
    return tmp_path


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Return a segment with three batches, the last one incomplete."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch() + batch(1, Compression.GZIP) + batch(2)[:-3])
    return path


@pytest.mark.parametrize("name", ["requests", "responses", "coordinator", "metadata", "data"])
def test_every_byte_of_golden_messages(name: str) -> None:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        vectors = [json.loads(line) for line in lines]
    for vector in random.Random(7).sample(vectors, 60):
        data = bytes.fromhex(vector["hex"])
        rows, error = explain_message(message_class(vector["name"]), vector["version"], data)
        assert error is None, vector["name"]
        assert b"".join(row.data for row in rows) == data, (vector["name"], vector["version"])
        assert [row.offset for row in rows] == sorted(row.offset for row in rows)


def test_rows_of_a_message() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=7)
    rows, error = explain_message(HeartbeatRequest, 4, codec(HeartbeatRequest, 4).encode(message) + b"rest")
    assert error is None
    assert rows == [
        Row(0, b"\x02g", "group_id", "'g'"),
        Row(2, b"\0\0\0\x07", "generation_id", "7"),
        Row(6, b"\x01", "member_id", "''"),
        Row(7, b"\0", "group_instance_id", "None"),
        Row(8, b"\0", "unknown_tags", "0 tagged fields"),
        Row(9, b"rest", "", "after the message"),
    ]


def test_cut_message() -> None:
    rows, error = explain_message(message_class("HeartbeatRequest"), 0, b"\0\x01g\0\0")
    assert isinstance(error, DecodeError)
    assert rows == [Row(0, b"\0\x01g", "group_id", "'g'"), Row(3, b"\0\0", "", "not read")]


def test_own_message(own: Path) -> None:
    cls: Any = load_message("GreetRequest", own)
    message = cls(people=[cls.Person("Ada", ZERO_UUID)])
    rows, error = explain_message(cls, 1, codec(cls, 1).encode(message))
    assert error is None
    assert [row.path for row in rows] == [
        "people", "people[0].name", "people[0].identity", "people[0].unknown_tags", "unknown_tags"
    ]  # fmt: skip


def test_explain_batch(segment: Path) -> None:
    rows = explain_batch(segment, 1)
    assert rows[0].value == "1"
    assert any(row.region == "gzip" for row in rows)
    with pytest.raises(DecodeError, match="partial batch: 76 bytes are needed, but 73 are left"):
        explain_batch(segment, 2)
    segment.write_bytes(segment.read_bytes()[:-73])
    with pytest.raises(ValueError, match="has no batch 2; batches are numbered from 0"):
        explain_batch(segment, 2)


def test_explain_batch_after_a_damaged_length(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[9] ^= 1
    segment.write_bytes(data)
    with pytest.raises(DecodeError, match="batch at byte 0: partial batch: "):
        explain_batch(segment, 1)


def test_explain_command() -> None:
    expected = "OFFSET  BYTES        FIELD          VALUE\n0       00 01 67     group_id       'g'\n"
    assert run("explain", "HeartbeatRequest", 0, "00 01 67 00000001 0000").startswith(expected)
    assert run("explain", "HeartbeatRequest", 0, "-", stdin="000167\n00000001 0000\n").startswith(expected)


def test_explain_bytes_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(bytes.fromhex("000167000000010000"))
    assert "group_id       'g'" in run("explain", "HeartbeatRequest", 0, f"@{tmp_path / 'bytes'}")


def test_explain_says_where_reading_stopped() -> None:
    output = run("explain", "HeartbeatRequest", 0, "00016700", code=1)
    assert output.endswith("error: generation_id at byte 3: 4 bytes are needed, but 1 are left\n")


def test_explain_own_schema(own: Path) -> None:
    assert "people[0].name  'Ada'" in run("explain", "GreetRequest", 0, "00000001 0003416461", "--schemas", own)


@pytest.mark.parametrize("magic", [0, 1])
def test_explain_message_set(magic: int) -> None:
    builder = MessageSetBuilder(magic=magic)
    builder.append(1_700_000_000_000, b"key", b"value")
    assert "b'value'" in run("explain", "MessageSet", magic, bytes(builder.build()).hex())


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_explain_batch_command(compression: Compression) -> None:
    output = run("explain", "RecordBatch", 2, batch(5, compression).hex())
    assert "records[0].value" in output
    assert ("zstd+" in output) == (compression is Compression.ZSTD)


def test_explain_batch_of_a_segment(segment: Path) -> None:
    assert "00 00 00 00 00 00 00 01" in run("explain", "RecordBatch", 2, "--file", segment, "--batch", 1)


def test_a_message_of_many_rows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS_MAX", 10)
    data = codec(MetadataRequest, 0).encode(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")] * 100))
    (*_, last) = run("explain", "MetadataRequest", 0, data.hex()).splitlines()
    frame = (len(data) + 10).to_bytes(4, "big") + bytes.fromhex("0003 0000 00000007 ffff") + data
    for output in (last, run("explain", frame.hex()).splitlines()[-1]):
        assert output.endswith(" bytes not shown, because the limit is 10 rows")
    rows, error = explain_message(MetadataRequest, 0, data)
    assert error is None
    assert b"".join(row.data for row in rows) == data


def test_explain_deep() -> None:
    partition = ProduceRequest.PartitionProduceData(index=3, records=batch() + batch(1))
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[partition])])
    data = codec(ProduceRequest, 9).encode(request)
    path = "topic_data[0].partition_data[0].records"
    assert f"{path}[1].records[0].value" not in run("explain", "ProduceRequest", 9, data.hex())
    lines = run("explain", "ProduceRequest", 9, data.hex(), "--deep").splitlines()
    (line,) = (line for line in lines if f"{path}[1].records[0].value" in line)
    assert data[int(line.split()[0]) :].startswith(b"\x0avalue")
    assert lines[-1].split()[2:] == ["unknown_tags", "0", "tagged", "fields"]


@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_explain_shows_all_bytes(deep: tuple[str, ...]) -> None:
    assert run("explain", "HeartbeatResponse", 0, "0000" + "abcd", *deep).splitlines()[-1].endswith("after the message")
    cut = run("explain", "HeartbeatRequest", 0, "0001" + "41" + "000000", *deep, code=1)
    assert "not read" in cut.splitlines()[-2]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("HeartbeatRequest", 0, "00zz"), "not hexadecimal"),
        (("HeartbeatRequest", 99, "00"), "HeartbeatRequest has no version 99"),
        (("HartbeatRequest", 0, "00"), "did you mean HeartbeatRequest?"),
        (("RecordBatch", 1, "00"), "RecordBatch has magic 2, not 1"),
        (("MessageSet", 2, "00"), "MessageSet has magic 0 and 1, not 2"),
        (("--api", "Fetch", "--api-version", 99, "00000000"), "FetchResponse has no version 99"),
        (("x" * 100_000, 0, "00"), f"record format '{'x' * 59}…"),
        (("HeartbeatRequest", 0), "expected HEX of a whole frame, MESSAGE VERSION HEX, FILE.log, or --pcap FILE"),
        ((), "expected HEX of a whole frame"),
        (("HeartbeatRequest", 0, "@/no/such/file"), "No such file"),
        (("RecordBatch", 2, "--file", "/no/such/file"), "No such file"),
    ],
)
def test_mistakes(arguments: tuple[object, ...], reason: str) -> None:
    output = run("explain", *arguments, code=1)
    assert output.startswith("error: ")
    assert reason in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--frame 3 00", "--frame applies to a capture, but the input is a frame"),
        ("--deep 00", "--deep applies to a message, but the input is a frame"),
        ("--batch 1 --key OffsetCommitKey 00", "--batch applies to a log segment, but the input is a frame"),
        (
            "HeartbeatRequest 0 000167000000010000 --request 00",
            "--request applies to a frame, but the input is a message",
        ),
        ("0.log --schemas nowhere", "for a log segment, --schemas requires --key or"),
        ("--file 0 --api Fetch", "--api applies to a frame, but the input is a log segment"),
        ("--pcap FILE 00", "--pcap FILE cannot be combined with other input: '00'"),
        ("--pcap FILE --file 0", "--file applies to a log segment, but the input is a capture"),
        ("0.log --position 0 --offset 0", "--offset and --position are mutually exclusive"),
        ("0.log --position 0 --batch 0", "--batch and --position are mutually exclusive"),
        ("0.log --position -1", "Invalid value for '--position': "),
        ("0.log --batch 0 --offset 0", "--batch and --offset are mutually exclusive"),
        ("00 --request 00 --api Fetch", "--request and --api are mutually exclusive"),
    ],
)
def test_options_that_would_be_ignored(arguments: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, "codegen", ["explain", *arguments.split()]) == 2
    output = capsys.readouterr().err
    assert reason in output
    assert output.count("\n") == 1


def test_a_file_is_no_hexadecimal_number(tmp_path: Path) -> None:
    """A missing @ is reported, and so is an index passed in place of a segment."""
    path = tmp_path / "0.index"
    path.write_bytes(bytes(8))
    for arguments in ((path,), ("HeartbeatRequest", 0, path), (tmp_path,)):
        output = run("explain", *arguments, code=1)
        assert f"{arguments[-1]} is a path, not a hexadecimal number: use @{arguments[-1]} to read its bytes;" in output
        assert f"`kafkawire dump {arguments[-1]}`" in output


def test_help_shows_examples() -> None:
    lines = [line.rstrip() for line in run("explain", "--help").splitlines()]
    assert "  explain FILE.log --key OffsetCommit   keys of a type" in lines


def test_explain_says_which_release_removed_a_version() -> None:
    output = run("explain", "ControlledShutdownRequest", 0, "00000007")
    assert "ControlledShutdownRequest version 0 was removed in release 4.0" in output
    assert [line.split()[-2:] for line in output.splitlines()][-1] == ["broker_id", "7"]
