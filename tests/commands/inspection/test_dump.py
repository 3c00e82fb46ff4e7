"""`kafkawire dump` accepts files and folders, reports unreadable ones, and exits quietly when its output is closed.

Method: run the command in this process, or in a separate one if signals or pipes matter. The tests in
`tests/commands/inspection/dumping/` cover the content of files.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.commands.inspection.dump import run
from kafkawire.records import BatchBuilder
from tests.codegen_command import write_record_schemas
from tests.commands.inspection.dumping.dump_bench import batch, dump, log_name, objects, of_kind, segment
from tests.needs import FULL_DEVICE


def test_a_folder(tmp_path: Path) -> None:
    segment(tmp_path, batch(0, b"a"), topic="b")
    segment(tmp_path, batch(1, b"c"), topic="b", base_offset=1)
    segment(tmp_path, batch(0, b"d"), topic="a")
    (tmp_path / "notes.txt").write_text("not Kafka's")
    found = objects(tmp_path)
    names = [str(Path(each["path"]).relative_to(tmp_path)) for each in of_kind("file", found)]
    assert names == [f"a-0/{log_name(0)}", f"b-0/{log_name(0)}", f"b-0/{log_name(1)}"]
    assert [each["value"] for each in of_kind("record", found)] == ["d", "a", "c"]
    assert {"path": str(tmp_path / "notes.txt"), "text": "unknown file"} in of_kind("note", found)


def test_segments_before_the_offset_are_left_out(tmp_path: Path) -> None:
    for base in (0, 2, 4):
        segment(tmp_path, batch(base, b"a", b"b"), base_offset=base)
        segment(tmp_path, b"", base_offset=base, suffix=".timeindex")
    found = objects("--from-offset", "3", tmp_path)
    assert [each["baseOffset"] for each in of_kind("file", found)] == [2, 2, 4, 4]
    assert [each["offset"] for each in of_kind("record", found)] == [3, 4, 5]


@pytest.mark.parametrize("added", [".deleted", ".cleaned", ".swap"])
def test_segments_that_are_being_removed_hide_none(tmp_path: Path, added: str) -> None:
    """After compaction, one segment has the offsets of several others, which remain next to it for a minute."""
    segment(tmp_path, batch(0, b"a"), batch(9, b"b"), base_offset=0)
    segment(tmp_path, batch(7, b"old"), base_offset=7, suffix=f".log{added}")
    found = objects("--from-offset", "8", tmp_path)
    assert [each["value"] for each in of_kind("record", found)] == ["b"]
    segment(tmp_path, batch(2, b"old"), batch(9, b"old"), base_offset=2, suffix=f".log{added}")
    segment(tmp_path, batch(8, b"c"), base_offset=8)
    found = objects("--from-offset", "8", tmp_path)
    assert [each["value"] for each in of_kind("record", found)] == ["old", "c"]


def test_what_cannot_be_read_does_not_hinder_the_rest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = segment(tmp_path, batch(0, b"a"))
    assert dump("--only", "file", good, tmp_path / "none.log", good, code=1) == [f"Dumping {good}"] * 2
    error = capfd.readouterr().err
    assert error == f"kafkawire dump: [Errno 2] No such file or directory: '{tmp_path / 'none.log'}'\n"
    gone = tmp_path / "t-0" / log_name(5)
    gone.symlink_to(tmp_path / "nowhere")
    assert dump(good, code=0)


@pytest.mark.parametrize(
    "suffix", [".log", ".checkpoint", ".index", ".timeindex", ".txnindex", ".snapshot", "meta.properties"]
)
def test_pipes_and_devices_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], suffix: str) -> None:
    good = segment(tmp_path, batch(0, b"a"))
    path = good.with_name(suffix if "." in suffix[1:] else log_name(5, suffix))
    os.mkfifo(path)
    assert good.name in dump("--only", "file", path, good, code=1)[-1]
    assert capfd.readouterr().err == f"kafkawire dump: [Errno 22] Not a regular file: '{path}'\n"
    if suffix != ".log":
        return
    for other in (".index", ".timeindex"):
        index = segment(tmp_path, bytes(24), base_offset=5, suffix=other)
        dump(index, code=1)
        assert capfd.readouterr().err == f"kafkawire dump: [Errno 22] Not a regular file: '{path}'\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: file"),
        (
            ["--only", "batches", "f"],
            "unknown kind 'batches'; expected one or more of file, batch, record, control, gap, entry, note, damage",
        ),
        (["--from-offset", "-1", "f"], "expected a number from 0 to 9223372036854775806, got '-1'"),
        (["--from-offset", "9" * 5000, "f"], "expected a number from 0 to"),
        (["--max-bytes", "0", "f"], "expected a number from 1 to 2147483647, got '0'"),
        ([""], "the path is empty"),
        (
            ["--topic", "__consumer_offset", "f"],
            "'__consumer_offset' is not an internal topic with a known record format; did you mean __consumer_offsets?",
        ),
        (["--topic", "__x", "f"], "expected one of __cluster_metadata, __consumer_offsets, "),
    ],
)
def test_mistakes_in_the_arguments(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("kafkawire dump", arguments)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_help_begins_with_what_is_needed_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("kafkawire dump", ["--help"])
    options = re.findall("^  ([-a-z]+)", capsys.readouterr().out, re.MULTILINE)
    assert options == [
        *("file", "-h", "--json", "--only", "--from-offset", "--without-content"),
        *("--topic", "--schemas", "--max-bytes", "--max-batch-bytes"),
    ]


@pytest.mark.parametrize("topic", ["", "orders", "_schemas"])
def test_a_topic_whose_records_are_not_decoded(tmp_path: Path, topic: str) -> None:
    path = segment(tmp_path, batch(0, b"value"), topic="__consumer_offsets")
    (record,) = of_kind("record", objects("--topic", topic, path))
    assert (record["key"], record["value"]) == ("k0", "value")


def visits(folder: Path, topic: str = "__visits") -> Path:
    """Write a segment for the topic that `write_record_schemas` describes."""
    builder = BatchBuilder()
    builder.append(0, b"\0\x09\0\x03Ada", b"\0\1\0\0\0\x4d\0", ())
    builder.append(0, b"\0\x09\0\x03Bob", None, ())
    builder.append(0, b"\0\x08\0\0", None, ())
    return segment(folder, bytes(builder.build()), topic=topic)


@pytest.mark.parametrize(("topic", "arguments"), [("__visits", []), ("t", ["--topic", "__visits"])])
def test_records_of_ones_own(tmp_path: Path, topic: str, arguments: list[str]) -> None:
    schemas, path = write_record_schemas(tmp_path / "schemas"), visits(tmp_path, topic)
    visit, left, other = of_kind("record", objects("--schemas", schemas, *arguments, path))
    assert visit["decoded"] == {
        "type": 9,
        "name": "Visit",
        "key": {"visitor": "Ada"},
        "version": 1,
        "value": {"minutes": 77},
    }
    assert left["decoded"]["value"] is None
    assert other["unknown"] == "key at byte 0: __visits: record type 8 is unknown; expected 9"
    assert (
        ' key: {"type":"9","data":{"visitor":"Bob"}} payload: <DELETE>'
        in dump("--schemas", schemas, *arguments, path)[-3]
    )
    if not arguments:
        assert "decoded" not in of_kind("record", objects(path))[0]


def test_kafkas_topics_are_decoded_beside_ones_own(tmp_path: Path) -> None:
    schemas = write_record_schemas(tmp_path / "schemas")
    builder = BatchBuilder()
    builder.append(0, b"\0\1\0\1g\0\1t\0\0\0\0", None, ())
    path = segment(tmp_path, bytes(builder.build()), topic="__consumer_offsets")
    assert of_kind("record", objects("--schemas", schemas, path)) == of_kind("record", objects(path))
    assert of_kind("record", objects(path))[0]["decoded"]["name"] == "OffsetCommit"


def test_schemas_that_are_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "visit.yaml").write_text("record: Visit\n")
    assert dump("--schemas", tmp_path, visits(tmp_path), code=1) == []
    error = capsys.readouterr().err
    assert error.startswith(f"kafkawire dump: {tmp_path / 'visit.yaml'}:1: ")
    assert dump("--schemas", tmp_path / "nowhere", visits(tmp_path), code=1) == []
    assert "nowhere" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("kafkawire dump", ["--schemas", str(write_record_schemas(tmp_path)), "--topic", "__visit", "f"])
    assert "--topic: '__visit' is not an internal topic with a known record format; did you mean __visits?" in (
        capsys.readouterr().err
    )


def large_segment(folder: Path) -> Path:
    return segment(folder, *(batch(number, b"x" * 10_000) for number in range(2_000)))


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    path = large_segment(tmp_path)
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkawire", "dump", str(path)], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert os.read(reader, 7) == b"Dumping"
    os.close(reader)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (141, b"")


def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    path = large_segment(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkawire", "dump", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(7) == b"Dumping"  # the process now waits until more output is read
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"")


def run_with(redirection: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell that redirects its output."""
    command = f'exec "$0" -m kafkawire dump "$@" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@FULL_DEVICE.mark
def test_output_that_fails_is_said_once(tmp_path: Path) -> None:
    """The error is not repeated for every file that is read."""
    for number in range(20):
        segment(tmp_path, batch(number, b"x" * 100_000), base_offset=number)
    for path in (tmp_path, tmp_path / "t-0" / log_name(0)):
        found = run_with(">/dev/full", path)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr == "kafkawire dump: cannot write: [Errno 28] No space left on device\n"


def test_output_that_is_closed(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(0, b"a"))
    found = run_with(">&-", path)
    assert (found.returncode, found.stderr) == (1, "kafkawire dump: cannot write: standard output is closed\n")
    found = run_with("2>&-", path)
    assert found.returncode == 0
    assert found.stdout.endswith(f"batches: 1 records: 1 gaps: 0 bytes: {path.stat().st_size}\n")
