"""Every file in a folder of vectors is checked, and differences are found.

Method: check the small files from the package's own folder, copies with one wrong value, and unknown, empty, damaged
and missing files; use a checker that raises. The large files are checked vector by vector in the tests of the code that
they cover.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafkawire.conformance.codec_suite import VECTORS, run_vectors
from kafkawire.conformance.message_vectors import stricter
from kafkawire.conformance.report import Suite
from kafkawire.sdk.protocol.engines.selection import ENGINE

SMALL = ("corrupt.jsonl.gz", "headers.jsonl.gz", "write_rules.jsonl.gz", "error_codes.json")


def folder(tmp_path: Path, *names: str) -> Path:
    """Copy some files, and write a coverage table that lists only those."""
    for name in names:
        shutil.copy(VECTORS / name, tmp_path / name)
    coverage = json.loads((VECTORS / "coverage.json").read_text())
    files = {name: coverage["files"].get(name, {"lines": 1}) for name in names}
    (tmp_path / "coverage.json").write_text(json.dumps({"files": files}))
    return tmp_path


def suites(path: Path) -> dict[str, Suite]:
    return {suite.name: suite for suite in run_vectors(path, ENGINE)}


def reasons(suite: Suite) -> list[str]:
    return [failure.reason for failure in suite.failures]


def test_small_files_pass(tmp_path: Path) -> None:
    found = suites(folder(tmp_path, *SMALL))
    assert set(found) == {*SMALL, "coverage.json"}
    assert [suite.failures for suite in found.values()] == [[], [], [], [], []]
    assert found["headers.jsonl.gz"].passed == 18


def test_a_suite_takes_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(0, 1500)
    monkeypatch.setattr("kafkawire.conformance.codec_suite.monotonic_ms", lambda: next(ticks))
    path = folder(tmp_path, "headers.jsonl.gz")
    assert [suite.seconds for suite in run_vectors(path, ENGINE)] == [1.5, 1.5]  # known when a suite is yielded


def test_what_is_refused_on_purpose_is_counted(tmp_path: Path) -> None:
    suite = suites(folder(tmp_path, "corrupt.jsonl.gz"))["corrupt.jsonl.gz"]
    vectors = map(json.loads, gzip.decompress((VECTORS / "corrupt.jsonl.gz").read_bytes()).splitlines())
    assert suite.stricter == Counter(vector["kind"] for vector in vectors if stricter(vector) is not None)
    assert suite.stricter


def test_every_shipped_file_has_a_checker() -> None:
    from kafkawire.conformance.codec_suite import _LINES, _TABLES

    known = {*_LINES, *_TABLES, "frames.jsonl.gz"}
    assert {path.name for path in VECTORS.iterdir() if path.suffix in (".gz", ".json")} == known


def test_every_shipped_file_of_an_older_release_has_a_checker() -> None:
    from kafkawire.conformance.codec_suite import _OLDER_LINES, _OLDER_TABLES

    known = {*_OLDER_LINES, *_OLDER_TABLES, "frames.jsonl.gz"}
    older = [path for path in VECTORS.iterdir() if path.is_dir()]
    assert older
    assert {path.name for folder in older for path in folder.iterdir()} <= known


def test_folders_inside_are_checked_as_older_releases(tmp_path: Path) -> None:
    path = folder(tmp_path, "headers.jsonl.gz")
    (path / "kafka_3_9_1").mkdir()
    shutil.copy(VECTORS / "kafka_3_9_1" / "headers.jsonl.gz", path / "kafka_3_9_1")
    (path / "kafka_3_9_1" / "api_keys.json").write_text("{}")
    found = suites(path)
    assert (found["kafka_3_9_1/headers.jsonl.gz"].passed, found["kafka_3_9_1/headers.jsonl.gz"].failures) == (4, [])
    assert reasons(found["kafka_3_9_1/api_keys.json"]) == ["there is no checker for this file"]


def test_an_unknown_file_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "surprise.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    assert reasons(suites(tmp_path)["surprise.jsonl.gz"]) == ["there is no checker for this file"]


@pytest.mark.parametrize(
    ("name", "content"), [("requests.jsonl.gz", gzip.compress(b"", mtime=0)), ("schema_parity.json", b"[]")]
)
def test_a_file_without_vectors_is_a_failure(tmp_path: Path, name: str, content: bytes) -> None:
    (folder(tmp_path) / name).write_bytes(content)
    assert reasons(suites(tmp_path)[name]) == ["contains no vectors"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("headers.jsonl.gz", (VECTORS / "headers.jsonl.gz").read_bytes()[:-9], "cannot be read: EOFError"),
        ("headers.jsonl.gz", gzip.compress(b"no JSON", mtime=0), "cannot be read: JSONDecodeError"),
        ("headers.jsonl.gz", b"no gzip", "cannot be read: BadGzipFile"),
        ("error_codes.json", b"no JSON", "cannot be read: JSONDecodeError"),
        ("frames.jsonl.gz", gzip.compress(b"{}", mtime=0), "cannot be read: FileNotFoundError: .*requests.jsonl.gz"),
    ],
)
def test_a_damaged_file_is_a_failure(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (folder(tmp_path) / name).write_bytes(content)
    assert re.match(reason, reasons(suites(tmp_path)[name])[-1])


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    (folder(tmp_path, *SMALL) / SMALL[0]).unlink()
    assert [(failure.case, failure.reason) for failure in suites(tmp_path)["coverage.json"].failures] == [
        (SMALL[0], "is missing")
    ]


def change(path: Path, line: int, key: str, value: Any) -> None:
    """Change one field of one vector."""
    lines = gzip.decompress(path.read_bytes()).splitlines()
    vector = json.loads(lines[line])
    vector[key] = value
    lines[line] = json.dumps(vector).encode()
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))


@pytest.mark.parametrize(("key", "value"), [("hex", "00"), ("version", 77), ("value", None)])
def test_a_wrong_vector_is_found(tmp_path: Path, key: str, value: object) -> None:
    change(folder(tmp_path, "headers.jsonl.gz") / "headers.jsonl.gz", 3, key, value)
    suite = suites(tmp_path)["headers.jsonl.gz"]
    assert (suite.passed, len(suite.failures)) == (17, 1)
    assert suite.failures[0].case.startswith("line 4 RequestHeader")


@pytest.mark.parametrize("target", ["message", "records"])
def test_a_wrong_corrupt_vector_is_found(tmp_path: Path, target: str) -> None:
    path = folder(tmp_path, "corrupt.jsonl.gz") / "corrupt.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines()
    pairs = [(vector["target"], vector["outcome"]) for vector in map(json.loads, lines)]
    change(path, pairs.index((target, "error")), "outcome", "decoded")
    suite = suites(tmp_path)["corrupt.jsonl.gz"]
    assert (suite.passed, len(suite.failures)) == (len(lines) - 1, 1)


@pytest.mark.parametrize("name", ["headers", "corrupt", "write_rules"])
def test_vectors_are_checked_on_the_engine_that_is_asked_for(tmp_path: Path, name: str) -> None:
    file = f"{name}.jsonl.gz"
    (suite,) = (suite for suite in run_vectors(folder(tmp_path, file), "rust") if suite.name == file)
    assert suite.passed == 0
    assert all("engine 'rust' is not available" in failure.reason for failure in suite.failures)


def test_frames_are_put_together_from_their_bodies(tmp_path: Path) -> None:
    path = folder(tmp_path, "frames.jsonl.gz", "requests.jsonl.gz", "responses.jsonl.gz")
    change(path / "frames.jsonl.gz", 0, "header_size", 1)
    suite = suites(path)["frames.jsonl.gz"]
    assert (suite.passed, len(suite.failures)) == (957, 1)


def test_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no vectors"):
        next(run_vectors(tmp_path, ENGINE))
