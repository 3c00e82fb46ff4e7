"""A segment's batches, records, keys and values are found, even after damage, and nothing else is mistaken for one.

Method: run the commands on segments that the codecs wrote, with several types of records from Kafka's own topics.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kafkawire.commands.inspection.explaining import records
from kafkawire.commands.inspection.explaining.segments import LogSegment
from kafkawire.records import MessageSetBuilder
from kafkawire.sdk.records import Compression
from tests.codegen_command import run
from tests.commands.inspection.explaining.segment_bench import COMMITTED, batch


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
    assert output.count("value of the record") == 2  # the third record has no value
    assert "protocol_type" not in output  # a field of GroupMetadata values
    words = " ".join(output.split())
    assert words.count(" version 3 2 00 00 00 00 00 00 00 4d offset 77 ") == 2


def test_keys_and_values_of_one_record(segment: Path) -> None:
    output = run("explain", segment, "--key", "OffsetCommitKey", "--value", "OffsetCommitValue", "--offset", 10)
    assert [line[:5] for line in output.splitlines() if "of the record" in line] == ["key o", "value"]
    assert "byte 0" not in output
    assert run("explain", segment, "--key", "OffsetCommitKey", "--batch", 1).count("key of") == 1


def test_a_type_that_is_not_there(segment: Path) -> None:
    output = run("explain", segment, "--key", "TransactionLogKey", code=1)
    assert f"{segment} has no record of type TransactionLogKey; it has types 1, 2" in output


@pytest.mark.parametrize("form", ["--file", "@", "stdin"])
def test_a_segment_is_no_key(segment: Path, form: str) -> None:
    """A batch's header reads like a key with an empty group, but it is not a key."""
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
    ("offset", "text"), [(5, "its first offset is 0, and the last one read is 10"), (99, "the last one read is 10")]
)
def test_an_offset_that_is_not_there(segment: Path, offset: int, text: str) -> None:
    assert text in run("explain", segment, "--offset", offset, code=1)


def test_an_offset_that_compaction_removed(tmp_path: Path) -> None:
    data = bytearray(batch(0, COMMITTED, Compression.NONE))
    data[23:27] = struct.pack(">i", 5)
    path = tmp_path / "0.log"
    path.write_bytes(data)
    assert "no record has offset 4; the batch at byte 0 has offsets 0 to 5" in run(
        "explain", path, "--offset", 4, code=1
    )


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
    assert "has 0 bytes, so no batch begins at byte 0" in run("explain", path, code=1)
    assert "has no batch 0" in run("explain", path, "--batch", 0, code=1)
    assert "the file has no batch" in run("explain", path, "--offset", 0, code=1)
    path.write_bytes(b"2026-11-24 INFO started" * 9)
    assert "; `kafkawire dump" in run("explain", path, "--offset", 3, code=1)
    assert run("explain", path, code=1).splitlines()[-1].startswith("error: ")
    damage, result = run("explain", path, "--key", "OffsetCommitKey", code=1).splitlines()
    assert damage.startswith("error: 207 bytes at 0: ")
    assert result == f"error: {path} has no record of type OffsetCommitKey"
    assert "No such file" in run("explain", tmp_path / "nowhere.log", code=1)
    assert run("explain", "HeartbetRequest", 0, "--file", path, code=1).startswith("error: unknown message")


@pytest.mark.parametrize("name", ["0.log.deleted", "0.log.swap", "00000000000000000005-0000000001.checkpoint"])
def test_other_names_of_segments(segment: Path, name: str) -> None:
    path = segment.rename(segment.with_name(name))
    assert run("explain", path, "--key", "OffsetCommitKey").count("key of") == 3
    assert "--key OffsetCommitKey`" in run("explain", "OffsetCommitKey", 0, f"@{path}", code=1)


def test_a_batch_by_its_position(segment: Path) -> None:
    data = segment.read_bytes()
    second = len(data) - len(batch(10, COMMITTED[:1], Compression(data[22] & 7)))
    for damage in (b"", b"damage"):
        segment.write_bytes(damage + data)
        position = len(damage) + second
        output = run("explain", segment, "--position", position)
        assert output.startswith(f"batch at byte {position}, offsets 10 to 10\nOFFSET")
        assert run("explain", segment, "--position", position, "--key", "OffsetCommit").splitlines()[0] == (
            f"key of the record with offset 10, in the batch at byte {position}"
        )
    assert f"has {len(data) + 6} bytes, so no batch begins at byte 9999" in run(
        "explain", segment, "--position", 9999, code=1
    )


def test_what_is_no_batch_is_explained_as_far_as_it_goes(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[8] = 0x7F
    segment.write_bytes(data)
    lines = run("explain", segment, code=1).splitlines()
    assert lines[0] == "no batch at byte 0"
    assert any("batch_length" in line.split() for line in lines)
    assert lines[-1].startswith("error: batch at byte 0: partial batch: ")
    lines = run("explain", segment, "--position", 1, code=1).splitlines()
    assert lines[0] == "no batch at byte 1"
    assert lines[2].endswith("not read")
    for place in (("--batch", 1), ("--offset", 10)):
        output = run("explain", segment, *place, code=1)
        assert f"; `kafkawire dump {segment}` finds batches after damage; --position explains the data" in output
        assert output.count("\n") == 1


def test_keys_behind_damage(segment: Path) -> None:
    data = segment.read_bytes()
    segment.write_bytes(b"?" * 50 + data)
    lines = run("explain", segment, "--key", "OffsetCommitKey", code=1).splitlines()
    assert lines[0].startswith("error: 50 bytes at 0: ")
    assert sum(line.startswith("key of the record") for line in lines) == 3


def long_segment(folder: Path) -> Path:
    """Return a segment that is larger than a single read."""
    path = folder / "0.log"
    path.write_bytes(b"".join(batch(3 * number, COMMITTED) for number in range(10_000)))
    return path


@pytest.mark.thorough
def test_a_file_that_gets_shorter(tmp_path: Path) -> None:
    """A broker may truncate its log while the log is being read; what was read before that is still shown."""
    path = long_segment(tmp_path)
    command = [sys.executable, "-m", "kafkawire", "codegen", "explain", str(path), "--key", "OffsetCommit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.read(7) == "key of "  # the process now waits until more output is read
        os.truncate(path, 1000)
        output, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert output.splitlines()[-1] == f"note: {path} shrank to 1000 bytes while it was being read"


def test_where_a_file_was_cut(tmp_path: Path) -> None:
    path = long_segment(tmp_path)
    with closing(LogSegment(path)) as segment:
        assert segment.batch(9_999)[1].base_offset == 29_997
        assert segment.cut_to is None
        position, found = segment.batch_with(10)
        assert (position, found.base_offset) == (3 * len(batch(0, COMMITTED)), 9)
        os.truncate(path, 500)
        with pytest.raises(ValueError, match=r"has no batch 9999|partial batch"):
            segment.batch(9_999)
        assert segment.cut_to == 500


def test_a_pipe_is_no_segment(tmp_path: Path) -> None:
    """Reading a pipe would wait for a writer."""
    os.mkfifo(tmp_path / "0.log")
    assert "Not a regular file" in run("explain", tmp_path / "0.log", code=1)


def test_a_record_of_a_batch_with_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record's batch has more rows than the limit for one object."""
    monkeypatch.setattr(records, "ROWS_MAX", 100)
    path = tmp_path / "0.log"
    path.write_bytes(batch(0, [(b"k", b"%d" % number) for number in range(1_000)]))
    assert run("explain", path).splitlines()[-1].endswith(" bytes not shown, because the limit is 100 rows")
    assert "b'999'" in run("explain", path, "--offset", 999)
