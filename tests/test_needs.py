"""A test whose requirement is not met is skipped if the machine is excused, and fails if the machine should meet it.

Method: run pytest in a separate process, on a small module with made-up requirements.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.needs import EXTENSION, NATIVE_ENGINE
from tests.thorough import sampled

ROOT = Path(__file__).parent.parent

MODULE = """
from tests.needs import Need

THERE = Need("a moon", lambda: True)
GONE = Need("a second moon", lambda: False)
LOST = Need("a sun", lambda: False, lambda: False)

@THERE.mark
def test_there():
    THERE.require()

@GONE.mark
def test_marked():
    raise AssertionError

def test_required():
    GONE.require()
    raise AssertionError

@LOST.mark
def test_marked_and_lost():
    raise AssertionError("it runs")

def test_lost():
    LOST.require()
"""


def run(folder: Path, code: str) -> str:
    """Run a module of tests, and return pytest's output."""
    (folder / "test_moons.py").write_text(code, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--rootdir", str(folder), "-c", "/dev/null"]
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [*command, *plugins, "test_moons.py"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_what_a_test_needs(tmp_path: Path) -> None:
    output = run(tmp_path, MODULE)
    assert all(f"SKIPPED [1] test_moons.py:{line}: needs a second moon" in output for line in (12, 17))
    assert "FAILED test_moons.py::test_marked_and_lost - AssertionError: it runs" in output
    assert "FAILED test_moons.py::test_lost" in output
    assert "needs a sun, which this machine should have" in output
    assert "2 failed, 1 passed, 2 skipped" in output


@pytest.mark.parametrize(
    ("thing", "end"), sampled([("LOST", "1 error"), ("GONE", "1 skipped"), ("THERE", "5 passed")], 3)
)
def test_what_a_module_needs(tmp_path: Path, thing: str, end: str) -> None:
    tests = "".join(f"\ndef test_{number}(): pass\n" for number in range(5))
    assert end in run(tmp_path, MODULE.partition("@")[0] + f"{thing}.require()\n{tests}")


@pytest.mark.parametrize(
    ("engine", "obstacle", "extension", "native"),
    [
        ("", None, "failed", "failed"),
        ("", "no compiler", "skipped", "skipped"),
        ("python", None, "failed", "skipped"),
        ("native", None, "failed", "failed"),
    ],
)
def test_a_machine_with_a_compiler_has_the_extension(
    monkeypatch: pytest.MonkeyPatch, engine: str, obstacle: str | None, extension: str, native: str
) -> None:
    monkeypatch.setenv("KAFKAWIRE_ENGINE", engine)
    monkeypatch.setattr(needs, "obstacle", lambda: obstacle)
    monkeypatch.setattr(needs.records, "built", None)
    monkeypatch.setattr(needs.protocol, "native", None)
    outcomes = {pytest.fail.Exception: "failed", pytest.skip.Exception: "skipped"}
    for need, expected in ((EXTENSION, extension), (NATIVE_ENGINE, native)):
        with pytest.raises(tuple(outcomes)) as raised:
            need.require()
        assert outcomes[raised.type] == expected
