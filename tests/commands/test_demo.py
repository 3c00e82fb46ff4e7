"""The demo does the main job on real input, and says so when something is wrong.

Method: the command as a process, on a small file and on input and addresses that cannot work.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkawire.commands.main", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_line_comes_back(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"word{number % 7} and line {number}\n" for number in range(500)) + "\n")
    result = demo("--file", str(path), "--compression", compression, "--no-spark")
    assert result.returncode == 0, result.stdout + result.stderr
    for text in ("501 lines", "broker killed", "nothing lost", "base_offset", "done in"):
        assert text in result.stdout


def test_an_empty_input(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()
    result = demo("--file", str(path))
    assert result.returncode == 2
    assert "has no lines" in " ".join(result.stderr.replace("│", " ").split())


def test_no_broker() -> None:
    result = demo("--bootstrap", "127.0.0.1:1")
    assert result.returncode == 1
    assert "ConnectFailed" in result.stdout
