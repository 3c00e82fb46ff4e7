"""`kafkawire dump` and Kafka's DumpLogSegments print the same output for the same files, field by field.

Method: dump with both the files of a node that has written every kind, files that brokers no longer write, and damaged
files; parse their lines, and compare them. Fields that only one of them prints are excluded by name.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder, crc32c
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.stored_files import COMPRESSED
from tests.vectors import read_vectors

DUMP = "org.apache.kafka.tools.DumpLogSegments"

#: A line from either tool: names and values, then a record's key and value, which may contain anything. Most names in
#: KRaft's control records have no colon.
FIELD = re.compile(r"(\w+:?) (\[[^\]]*\]|\{.*\}|\S+)")
CONTENT = re.compile(r"(?P<head>.*?)(?: key: (?P<key>.*?))?(?: payload: (?P<payload>.*))?")
JAVA_OPTIONAL = re.compile(r"OptionalLong(?:\.empty|\[(-?\d+)\])")

#: Fields that DumpLogSegments does not print.
OURS = ("headerValues",)
#: Lines that only one of the tools prints.
ONLY_OURS = re.compile(r"batches: |note: |gap: |damage: ")


def theirs(*options: str, files: list[Path]) -> tuple[list[dict[str, Any]], str]:
    """Return the output of Kafka's tool for files, and its complaints."""
    result = run_tool(DUMP, *options, "--files", ",".join(map(str, files)))
    assert result.returncode == 0, result.stderr
    return parsed(result.stdout), result.stderr


def ours(*options: str, files: list[Path], code: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """Return our output for files, and the damage found."""
    command = [sys.executable, "-m", "kafkawire", "dump", *options, *map(str, files)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (code, ""), result.stdout[-2000:]
    damage = [line.removeprefix("damage: ") for line in result.stdout.splitlines() if line.startswith("damage: ")]
    return parsed(result.stdout), damage


def parsed(text: str) -> list[dict[str, Any]]:
    """Return the fields of each line."""
    return [fields(line) for line in text.splitlines() if line and not ONLY_OURS.match(line)]


def fields(line: str) -> dict[str, Any]:
    if not re.match(r"(?:\| )?\w+: ", line):
        return {"line": line}
    found = CONTENT.fullmatch(JAVA_OPTIONAL.sub(lambda java: java[1] or "none", line))
    assert found is not None
    values: dict[str, Any] = {
        name.removesuffix(":") if name.endswith(":") else f"{name} without a colon": value
        for name, value in FIELD.findall(found["head"])
    }
    values |= {name: found[name] for name in ("key", "payload") if found[name] is not None}
    for name in OURS:
        values.pop(name, None)
    return {name: as_json(value) for name, value in values.items()}


def as_json(value: str) -> Any:
    try:
        return json.loads(value) if value.startswith("{") else value
    except ValueError:
        return value


def assert_same(files: list[Path], *options: str, our: tuple[str, ...] = (), some: int = 1) -> None:
    """Compare every field that both tools print for files."""
    assert files
    expected, complaints = theirs(*options, files=files)
    complaints = re.sub(r"Non-consecutive offsets in .*\n(?:  .* is followed by .*\n)+", "", complaints)
    assert complaints == ""
    found, damage = ours(*our, files=files)
    assert damage == []
    assert len(expected) > some
    for ours_, theirs_ in zip(found, expected, strict=True):
        assert ours_ == theirs_


@pytest.fixture(scope="module")
def stored(filled_kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the node's files; both tools thus read the same data."""
    copied = tmp_path_factory.mktemp("copied") / "data"
    shutil.copytree(filled_kafka.data_dir, copied)
    return copied


def logs(stored: Path, topic: str) -> list[Path]:
    return sorted((stored / f"{topic}-0").glob("*.log"))


@pytest.mark.parametrize("topic", [*COMPRESSED.values(), "stamped", "moved"])
def test_records(stored: Path, topic: str) -> None:
    assert_same(logs(stored, topic), "--print-data-log", "--deep-iteration")
    assert_same(logs(stored, topic), "--deep-iteration", our=("--without-content",))
    assert_same(logs(stored, topic), our=("--only", "file,note,batch"))


@pytest.mark.parametrize(
    ("topic", "decoder"),
    [
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
        ("__share_group_state", "--share-group-state-decoder"),
    ],
)
def test_internal_topics(stored: Path, topic: str, decoder: str) -> None:
    assert_same(logs(stored, topic), decoder, some=4)


def test_cluster_metadata(stored: Path) -> None:
    snapshots = sorted(stored.glob("**/*.checkpoint"))
    assert len(snapshots) > 1
    files = [*snapshots, *logs(stored, "__cluster_metadata")]
    expected, _ = theirs("--cluster-metadata-decoder", files=files)
    assert ours(files=files, code=0) == (expected, [])


def test_indexes_and_producers(stored: Path) -> None:
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        files = [path for path in sorted(stored.glob(f"*-0/*.{suffix}")) if path.stat().st_size < 100_000]
        expected, complaints = theirs(files=files)
        assert complaints == ""
        found, damage = ours(files=files)
        assert damage == []
        kept = [line for line in expected if not str(line.get("line", "")).endswith(" is empty.")]
        assert found == kept, suffix
        assert len(kept) > len(files), f"no output for the {suffix} files"


def test_indexes_that_are_written(stored: Path) -> None:
    """Kafka preallocates 10 MB for indexes. Its tool shows an entry in the preallocated space; ours does not."""
    files = [path for path in sorted(stored.glob("*-0/*index")) if path.stat().st_size > 100_000]
    assert {path.suffix for path in files} == {".index", ".timeindex"}
    shown = 0
    for path in files:
        expected, _ = theirs(files=[path])
        found, damage = ours(files=[path])
        assert damage == []
        is_room = len(expected) > 1 and set(expected[1].values()) <= {"0", str(int(path.stem))}
        assert found == expected[: 1 if is_room else None]
        shown += len(found) - 1
    assert shown


def test_sound_indexes_pass_the_checks(stored: Path) -> None:
    files = [path for path in sorted(stored.glob("*-0/*index")) if 0 < path.stat().st_size < 100_000]
    files = [path for path in files if path.suffix != ".txnindex"]
    checked, _ = theirs("--index-sanity-check", files=files)
    assert sum(str(line.get("line", "")).endswith("passed sanity check.") for line in checked) == len(files)
    verified, complaints = theirs("--verify-index-only", files=files)
    assert complaints == ""
    assert len(verified) == len(files)
    assert ours("--only", "damage", files=files) == ([], [])


def test_indexes_that_do_not_fit(stored: Path, tmp_path: Path) -> None:
    for path in (stored / "of-none-0").glob(f"{0:020}.*"):
        shutil.copy(path, tmp_path)
    index, times = tmp_path / f"{0:020}.index", tmp_path / f"{0:020}.timeindex"
    first, second = struct.unpack_from(">iiii", index.read_bytes())[:2], struct.unpack_from(">qiqi", times.read_bytes())
    index.write_bytes(struct.pack(">ii", first[0] + 1, first[1]) + index.read_bytes()[8:])
    _, complaints = theirs("--verify-index-only", files=[index])
    (pair,) = re.findall(r"Index offset: (\d+), log offset: (\d+)", complaints)
    _, damage = ours(files=[index], code=1)
    assert damage == [f"position 0: index offset {pair[0]}, log offset {pair[1]} at position {first[1]}"]
    shutil.copy(stored / "of-none-0" / index.name, tmp_path)
    times.write_bytes(struct.pack(">qi", second[0] + 1, second[1]) + times.read_bytes()[12:])
    _, complaints = theirs(files=[times])
    (pair,) = re.findall(r"Index timestamp: (\d+), log timestamp: (\d+)", complaints)
    _, damage = ours(files=[times], code=1)
    assert damage[0] == f"position 0: index timestamp {pair[0]}, log timestamp {pair[1]} at offset {second[1]}"


def test_gaps(stored: Path) -> None:
    """Kafka reports gaps as non-consecutive offsets, and compares the first offset of each file with -1."""
    files = logs(stored, "moved")
    _, complaints = theirs("--deep-iteration", files=files)
    expected = re.findall(r"  (\d+) is followed by (\d+)", complaints)
    found = subprocess.run(
        [sys.executable, "-m", "kafkawire", "dump", "--only", "gap", *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall(r"gap: offset (\d+) is followed by (\d+)", found.stdout) == expected


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_old_formats(tmp_path: Path, magic: int, compression: Compression) -> None:
    path = tmp_path / f"{7:020}.log"
    content = b""
    for base_offset in (7, 10):
        builder = MessageSetBuilder(magic, compression, base_offset=base_offset)
        for number in range(3):
            builder.append(1000 + number, None if number else b"key", b"value %d" % number)
        content += builder.build()
    path.write_bytes(content)
    assert_same([path], "--print-data-log")


def test_what_compaction_leaves(tmp_path: Path) -> None:
    builder = BatchBuilder(
        base_offset=5, delete_horizon_ms=1_700_000_000_000, producer_id=3, producer_epoch=1, base_sequence=9
    )
    for offset in (5, 8, 9):
        builder.append_at(offset, 1000, b"k", None, ())
    path = tmp_path / f"{5:020}.log"
    path.write_bytes(builder.build())
    assert_same([path], "--print-data-log")


def test_damaged_segments(tmp_path: Path) -> None:
    builder = BatchBuilder()
    builder.append(1000, b"k", b"value")
    good = builder.build()
    broken = good[:-3] + b"?" + good[-2:]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(broken + good[:30])
    expected, _ = theirs("--print-data-log", files=[path])
    found, damage = ours(files=[path], code=1)
    assert found == expected[:-1]
    assert [line["isvalid"] for line in expected if "isvalid" in line] == ["false"]
    assert expected[-1] == {"line": f"Found 30 invalid bytes at the end of {path.name}"}
    assert damage[-1].endswith("skipped 30 bytes")


def test_remote_log_metadata(tmp_path: Path) -> None:
    """Kafka prints record bodies in Java's notation; only kinds, ids and offsets are compared."""
    builder = BatchBuilder(2**20)
    vectors = [
        each for each in read_vectors("metadata") if each["module"] == "kafka-storage" and not each.get("unknown_tags")
    ]
    for vector in vectors:
        builder.append(1000, None, bytes.fromhex(vector["framed_hex"]))
    folder = tmp_path / "__remote_log_metadata-0"
    folder.mkdir()
    path = folder / f"{0:020}.log"
    path.write_bytes(builder.build())
    expected, _ = theirs("--remote-log-metadata-decoder", files=[path])
    found, damage = ours(files=[path])
    assert damage == []
    compared = 0
    for our, their in zip(found[3:], expected[3:], strict=True):
        text = str(their["payload"])
        if text.startswith("Error"):  # these are values that brokers never write
            continue
        data = our["payload"]["data"]
        assert text.startswith(our["payload"]["type"].title().replace("_", "").removesuffix("Record")), text
        for name in ("startOffset", "endOffset", "brokerId", "eventTimestampMs"):
            if name in data and (value := re.search(rf"\b{name}=(-?\d+)", text)):
                assert int(value[1]) == data[name]
                compared += 1
    assert compared


def test_the_checksum_is_that_of_the_content(tmp_path: Path) -> None:
    """Both tools print the checksum of each batch as a number."""
    builder = BatchBuilder()
    builder.append(1000, b"k", b"value")
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(builder.build())
    expected, _ = theirs(files=[path])
    assert expected[2]["crc"] == str(crc32c(builder.build()[21:]))
