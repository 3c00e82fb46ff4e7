"""Each supported Python on the machine is run, and is found once; shims and old releases are skipped.

Method: place programs that stand in for interpreters on the path and in a pyenv folder.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tools import pythons
from tools.pythons import PYTHON_VERSION_MIN, VERSIONS, find_pythons

ROOT = Path(__file__).parent.parent


def add_python(path: Path, version: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {path} {version.replace('.', ' ')}; exit {status}\n", "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that contains `bin`, which is on the path, and `pyenv`, the pyenv folder."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(pythons, "_this_version", lambda: "3.99")
    monkeypatch.setattr(pythons, "VERSIONS", ("3.11", "3.12"))
    return tmp_path


def test_path_comes_first(machine: Path) -> None:
    on_path = add_python(machine / "bin" / "python3.12", "3.12.4")
    add_python(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", "3.12.1")
    assert find_pythons() == {"3.12": on_path}


def test_shim_that_is_not_switched_on(machine: Path) -> None:
    add_python(machine / "bin" / "python3.12", "", status=127)
    real = add_python(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", "3.12.1")
    assert find_pythons() == {"3.12": real}


@pytest.mark.parametrize("release", ["3.11.1", "3.10.13"])
def test_wrong_release_is_passed_over(machine: Path, release: str) -> None:
    add_python(machine / "bin" / "python3.11", release)
    assert find_pythons() == {}


def test_this_interpreter_is_not_listed(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = add_python(machine / "bin" / "python3.11", "3.11.2")
    add_python(machine / "bin" / "python3.12", "3.12.4")
    monkeypatch.setattr(pythons, "_this_version", lambda: "3.12")
    monkeypatch.setattr(sys, "executable", str(machine / "bin" / "python3.12"))
    assert pythons.main([]) == 0
    assert capsys.readouterr().out == "3.11\n"
    assert pythons.main(["3.11"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert pythons.main(["3.13"]) == 1
    assert "no Python 3.13 was found" in capsys.readouterr().err


def test_project_says_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, PYTHON_VERSION_MIN))
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert tuple(classified) == VERSIONS
