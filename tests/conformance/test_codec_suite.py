"""Every file of a folder of vectors is checked, and differences are found.

Method: the small files of the package's own folder; copies with one wrong value, an unknown file, and a checker that
raises. The large files are checked, vector by vector, by the tests of the parts that they cover.
"""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkawire.conformance.codec_suite import VECTORS, run_vectors
from kafkawire.sdk.protocol.engines.selection import ENGINE

SMALL = ("corrupt.jsonl.gz", "headers.jsonl.gz", "write_rules.jsonl.gz", "error_codes.json")


def folder(tmp_path: Path, *names: str) -> Path:
    for name in names:
        shutil.copy(VECTORS / name, tmp_path / name)
    return tmp_path


def test_small_files_pass(tmp_path: Path) -> None:
    suites = {suite.name: suite for suite in run_vectors(folder(tmp_path, *SMALL), ENGINE)}
    assert set(suites) == set(SMALL)
    assert [suite.failures for suite in suites.values()] == [[], [], [], []]
    assert suites["headers.jsonl.gz"].passed == 18


def test_a_suite_takes_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(0, 1500)
    monkeypatch.setattr("kafkawire.conformance.codec_suite.monotonic_ms", lambda: next(ticks))
    assert [suite.seconds for suite in run_vectors(folder(tmp_path, "headers.jsonl.gz"), ENGINE)] == [1.5]


def test_every_shipped_file_has_a_checker() -> None:
    from kafkawire.conformance.codec_suite import _LINES, _TABLES

    known = {*_LINES, *_TABLES, "frames.jsonl.gz"}
    assert {path.name for path in VECTORS.iterdir() if path.suffix in (".gz", ".json")} == known


def test_an_unknown_file_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "surprise.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    (suite,) = run_vectors(tmp_path, ENGINE)
    assert [failure.reason for failure in suite.failures] == ["there is no checker for this file"]


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
    (suite,) = run_vectors(tmp_path, ENGINE)
    assert (suite.passed, len(suite.failures)) == (17, 1)
    assert suite.failures[0].case.startswith("line 4 RequestHeader")


def test_frames_are_put_together_from_their_bodies(tmp_path: Path) -> None:
    path = folder(tmp_path, "frames.jsonl.gz", "requests.jsonl.gz", "responses.jsonl.gz")
    change(path / "frames.jsonl.gz", 0, "header_size", 1)
    suite = next(suite for suite in run_vectors(path, ENGINE) if suite.name == "frames.jsonl.gz")
    assert (suite.passed, len(suite.failures)) == (957, 1)


def test_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no vectors"):
        next(run_vectors(tmp_path, ENGINE))
