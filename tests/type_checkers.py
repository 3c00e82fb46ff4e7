"""mypy and pyright read a program, and refuse the lines of it that say so in a comment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["check_with_mypy", "check_with_pyright"]

ROOT = Path(__file__).parents[1]


def check_with_mypy(program: str, folder: Path) -> None:
    """Assert that mypy refuses the lines that end with `# refused`, and no others.

    Args:
        program: its source.
        folder: where the file goes.
    """
    pytest.importorskip("mypy", reason="mypy is not installed")
    found = _run("mypy", "--strict", "--no-error-summary", str(_written(program, folder)))
    assert {int(line) for line in re.findall(r"program\.py:(\d+): error", found)} == _refused(program), found


def check_with_pyright(program: str, folder: Path) -> None:
    """Assert of pyright what `check_with_mypy` asserts of mypy."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    if subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("pyright cannot run on this machine")
    path = _written(program, folder)
    found = json.loads(_run("pyright", "--outputjson", "--pythonpath", sys.executable, str(path)))["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert lines == _refused(program), found


def _written(program: str, folder: Path) -> Path:
    path = folder / "program.py"
    path.write_text(program)
    return path


def _refused(program: str) -> set[int]:
    return {number for number, line in enumerate(program.splitlines(), 1) if line.endswith("# refused")}


def _run(*command: str) -> str:
    environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    result = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout
