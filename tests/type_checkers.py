"""Check with mypy and pyright that exactly those lines of a program that end with `# refused` have errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.needs import Need

__all__ = ["check_with_mypy", "check_with_pyright"]

ROOT = Path(__file__).parents[1]

#: This module creates its functions when it is imported, so pyright, which runs no code, does not find them.
_MADE_AT_IMPORT = 'of module "pyarrow.compute"'

#: A type checker's messages, keyed by file name and line number.
Errors = dict[tuple[str, int], str]


def check_with_mypy(programs: Mapping[str, str], folder: Path) -> None:
    """Assert that mypy refuses the lines that end with `# refused`, and no others.

    One run checks all programs, because checking their imports takes most of the time.

    Args:
        programs: the programs' sources, keyed by file name.
        folder: the folder for the files.
    """
    pytest.importorskip("mypy", reason="mypy is not installed")
    paths = _write(programs, folder)
    shown = _run("mypy", "--strict", "--no-error-summary", *paths)
    found = re.findall(r"^(?:.*/)?(.+?):(\d+): error: (.*)$", shown, re.MULTILINE)
    _compare({(name, int(line)): text for name, line, text in found}, programs)


def check_with_pyright(programs: Mapping[str, str], folder: Path) -> None:
    """Assert that pyright refuses the lines that end with `# refused`, and no others; see `check_with_mypy`."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    Need("a Node.js that pyright can start", _can_start_pyright).require()
    paths = _write(programs, folder)
    shown = _run("pyright", "--outputjson", "--pythonpath", sys.executable, *paths)
    errors = [each for each in json.loads(shown)["generalDiagnostics"] if each["severity"] == "error"]
    found = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in errors
        if _MADE_AT_IMPORT not in each["message"]
    }
    _compare(found, programs)


def _can_start_pyright() -> bool:
    command = [sys.executable, "-m", "pyright", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _write(programs: Mapping[str, str], folder: Path) -> list[str]:
    for name, program in programs.items():
        (folder / name).write_text(program)
    return [str(folder / name) for name in programs]


def _compare(found: Errors, programs: Mapping[str, str]) -> None:
    refused = {
        (name, number)
        for name, program in programs.items()
        for number, line in enumerate(program.splitlines(), 1)
        if line.endswith("# refused")
    }
    wrong = {place: text for place, text in found.items() if place not in refused}
    accepted = refused - found.keys()
    assert (wrong, accepted) == ({}, set()), f"refused: {wrong}; accepted: {sorted(accepted)}"


def _run(*command: str) -> str:
    environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    result = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout
