"""The commands print a line for each suite and a total, exit with 1 on failures and with 2 on wrong arguments.

Method: call the Typer app in this process, on small folders and on addresses where nothing listens.
"""

from __future__ import annotations

import gzip
import shutil
import socket
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from kafkawire.commands.conformance.conformance import app
from kafkawire.conformance.broker_suite import BrokerSuite
from kafkawire.conformance.codec_suite import VECTORS
from kafkawire.conformance.report import Failure, Suite


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def copy_headers(folder: Path) -> None:
    """Copy one file of vectors, and write a coverage table that lists only that file."""
    shutil.copy(VECTORS / "headers.jsonl.gz", folder)
    (folder / "coverage.json").write_text('{"files": {"headers.jsonl.gz": {"lines": 18}}}')


def test_codec(tmp_path: Path) -> None:
    copy_headers(tmp_path)
    junit = tmp_path / "report.xml"
    code, output = run("codec", "--vectors", str(tmp_path), "--engine", "python", "--junit", str(junit))
    assert code == 0
    assert "python headers.jsonl.gz: 18 passed, 0 failed" in output
    assert output.endswith("19 passed, 0 failed\n")
    assert [suite.get("tests") for suite in ElementTree.parse(junit).getroot()] == ["1", "18"]


def test_codec_with_failures(tmp_path: Path) -> None:
    copy_headers(tmp_path)
    (tmp_path / "surprise.json").write_text("{}")
    code, output = run("codec", "--vectors", str(tmp_path), "--engine", "python")
    assert (code, output.splitlines()[-1]) == (1, "19 passed, 1 failed")


def test_codec_without_vectors(tmp_path: Path) -> None:
    """An empty file used to pass, with "0 passed, 0 failed" and exit status 0."""
    (tmp_path / "requests.jsonl.gz").write_bytes(gzip.compress(b""))
    code, output = run("codec", "--vectors", str(tmp_path), "--engine", "python")
    assert (code, output.splitlines()) == (
        1,
        [
            "engine python",
            "  python requests.jsonl.gz: 0 passed, 1 failed",
            "      requests.jsonl.gz: contains no vectors",
            "0 passed, 1 failed",
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("codec", "--vectors", "nowhere"), "no such folder: nowhere"),
        (("codec", "--engine", "rust"), "native, python, construct"),
        (("run", "--bootstrap", "localhost:kafka"), "port 'kafka' is not a number"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], text: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert text in " ".join(output.replace("│", " ").split())


def test_an_engine_that_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is not built is skipped by default; requesting it by name is an error."""
    monkeypatch.setattr("kafkawire.sdk.protocol.engines.selection.native", None)
    copy_headers(tmp_path)
    code, output = run("codec", "--vectors", str(tmp_path))
    assert (code, output.splitlines()[-1]) == (0, "38 passed, 0 failed")
    code, output = run("codec", "--vectors", str(tmp_path), "--engine", "native")
    assert (code, output) == (2, "engine native: skipped, because the extension is not built\n")


def test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    suites = [Suite("first", passed=2), Suite("second", failures=[Failure("a case", "a reason")])]
    monkeypatch.setattr(BrokerSuite, "run", lambda self: iter(suites))
    code, output = run("run", "--bootstrap", "localhost:9092")
    assert code == 1
    assert output.splitlines() == [
        "first: 2 passed, 0 failed",
        "second: 0 passed, 1 failed",
        "    a case: a reason",
        "2 passed, 1 failed",
    ]


def test_run_without_a_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, output = run("run", "--bootstrap", f"127.0.0.1:{port}")
    assert code == 2
    assert "refused" in output
