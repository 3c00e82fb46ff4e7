"""A skip that nothing expects fails a run in CI and is printed elsewhere; an expected one does neither.

Method: pytest runs a small test module with the plugin, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.expected_skips import EXPECTED, ExpectedSkip

ROOT = Path(__file__).parent.parent

MODULE = """
import pytest

def test_passes():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    raise AssertionError
"""

SKIP_OF_A_TEST = MODULE + "\n\ndef test_skips():\n    pytest.skip('the moon is full')\n"
SKIP_OF_A_MODULE = MODULE + "\n\npytest.importorskip('no_such_package')\n"

HEADING = "skipped, and tests/expected_skips.py does not expect it"


def run(
    folder: Path, code: str, path: str = "test_moon.py", workers: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a module of `code` with the plugin."""
    module = folder / path
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(code, "utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.expected_skips", "--rootdir", str(folder)]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-c", "/dev/null", "-n", str(workers), path],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("code", [SKIP_OF_A_TEST, SKIP_OF_A_MODULE])
def test_unexpected_skip_fails_in_ci(tmp_path: Path, code: str, workers: int) -> None:
    outcome = run(tmp_path, code, workers=workers, CI="true")
    assert outcome.returncode != 0, outcome.stdout
    assert HEADING in outcome.stdout


def test_unexpected_skip_is_printed_elsewhere(tmp_path: Path) -> None:
    outcome = run(tmp_path, SKIP_OF_A_TEST)
    assert outcome.returncode == 0
    assert HEADING in outcome.stdout
    assert "test_moon.py::test_skips: the moon is full" in outcome.stdout


def test_no_skip_is_no_word(tmp_path: Path) -> None:
    outcome = run(tmp_path, MODULE, CI="true")
    assert outcome.returncode == 0
    assert HEADING not in outcome.stdout


def test_expected_skip_passes_in_ci(tmp_path: Path) -> None:
    code = "import pytest\n\n\ndef test_jars():\n    pytest.skip('needs the jars of Kafka 1.2.3')\n"
    outcome = run(tmp_path, code, path="tests/codegen/test_importer.py", CI="true")
    assert (outcome.returncode, HEADING in outcome.stdout) == (0, False), outcome.stdout


def test_skip_is_expected_only_when_it_may_occur(tmp_path: Path) -> None:
    code = "import pytest\n\n\ndef test_kcat():\n    pytest.skip('kcat is not installed')\n"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kcat").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "bin" / "kcat").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    outcome = run(tmp_path, code, path="tests/kafka/test_kcat.py", CI="true", PATH=path)
    assert outcome.returncode == 1
    assert "kcat is not installed" in outcome.stdout


@pytest.mark.parametrize("expected", EXPECTED)
def test_every_entry_names_tests(expected: ExpectedSkip) -> None:
    """An entry whose tests are gone would excuse others later."""
    modules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    pattern = expected.tests.split("::")[0]
    assert any(fnmatchcase(module, pattern) for module in modules), pattern
