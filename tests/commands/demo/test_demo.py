"""The demo works on real input, and reports errors.

Method: run the command as a process, on a small file and with unusable input and addresses.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thorough import sampled

COMMAND = [sys.executable, "-m", "kafkawire.commands.main", "demo"]


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("compression", sampled(["none", "gzip", "snappy", "lz4", "zstd"], 5))
def test_every_line_comes_back(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"word{number % 7} and line {number}\n" for number in range(500)) + "\n")
    result = demo("--file", str(path), "--compression", compression, "--no-spark")
    assert result.returncode == 0, result.stdout + result.stderr
    steps = ("501 lines", "topic created", "produced", "broker killed", "broker started again", "nothing lost")
    places = [
        result.stdout.find(text) for text in (*steps, "Spark left out", "first bytes of", "base_offset", "done in")
    ]
    assert -1 not in places
    assert places == sorted(places)


def test_an_empty_input(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()
    result = demo("--file", str(path))
    assert result.returncode == 2
    assert result.stderr == f"kafkawire demo: Invalid value for --file: {path} has no lines\n"


def test_no_input(tmp_path: Path) -> None:
    result = demo("--file", str(tmp_path / "none"))
    assert result.returncode == 2
    assert "kafkawire demo: Invalid value for --file: [Errno 2] No such file" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--bootstrap", "127.0.0.1:1"], "ConnectFailed"),
        (["--bootstrap", "127.0.0.1:kafka"], "port 'kafka' is not a number"),
        (["--compression", "rar", "--no-spark"], "expected one of none, gzip, snappy, lz4, zstd"),
    ],
)
def test_failures(arguments: list[str], text: str) -> None:
    result = demo(*arguments)
    assert result.returncode == 1
    assert text in " ".join(result.stdout.split())
    assert "Traceback" not in result.stdout + result.stderr


def test_interrupt() -> None:
    """Ctrl-C ends the demo and the broker without a traceback, as soon as the current step is done."""
    with subprocess.Popen(
        [*COMMAND, "--no-spark"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        while "topic created" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
