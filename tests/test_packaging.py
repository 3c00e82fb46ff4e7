"""The source archive builds a wheel that is whole, without a compiler too, and runs from where it is installed.

Method: a copy of the tree becomes an sdist, the unpacked sdist a wheel, both by the build backend itself and with
a compiler that fails; the unpacked wheel comes first on the path of a new process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Folders of the checkout that the package is made of, below src/kafkawire/ by links.
PACKAGES = ("codegen", "conformance", "reference_broker", "schemas", "sdk")

#: Files by suffix that are read at run time, or by type checkers.
DATA_SUFFIXES = {".py", ".pyi", ".typed", ".yaml", ".json", ".gz"}

BUILD = "import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"


def build(hook: str, folder: Path, into: Path) -> Path:
    """Run one hook of the build backend and return the archive that it made."""
    into.mkdir()
    outcome = subprocess.run(
        [sys.executable, "-c", BUILD.format(hook=hook), str(into)],
        cwd=folder,
        env={**os.environ, "CC": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    (archive,) = into.iterdir()
    return archive


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the `tree` and what its wheel holds, `installed`."""
    folder = tmp_path_factory.mktemp("packaging")
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.so", "*.c")
    shutil.copytree(ROOT, folder / "tree", symlinks=True, ignore=unwanted)
    sdist = build("build_sdist", folder / "tree", folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    wheel = build("build_wheel", unpacked, folder / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder


@pytest.fixture
def installed(built: Path) -> Path:
    """Return the folder with the unpacked wheel."""
    return built / "installed"


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_is_whole(built: Path, installed: Path, package: str) -> None:
    """Each file of the tree that is needed later is in the wheel, and none beside them."""
    expected = {
        path.relative_to(built / "tree" / package)
        for path in (built / "tree" / package).rglob("*")
        if path.suffix in DATA_SUFFIXES and "vector_generator" not in path.parts
    }
    shipped = {
        path.relative_to(installed / "kafkawire" / package)
        for path in (installed / "kafkawire" / package).rglob("*")
        if path.suffix in DATA_SUFFIXES
    }
    assert expected == shipped
    assert expected


def test_wheel_is_typed_and_squats_no_name(installed: Path) -> None:
    assert (installed / "kafkawire" / "py.typed").exists()
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"kafkawire"}


def test_wheel_without_compiler_uses_the_twin(installed: Path) -> None:
    script = (
        "import kafkawire; from kafkawire.sdk.protocol.engines.selection import ENGINE; "
        "print(kafkawire.__file__, ENGINE)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    environment.pop("KAFKAWIRE_ENGINE", None)
    command = [sys.executable, "-c", script]
    outcome = subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == [str(installed / "kafkawire" / "__init__.py"), "python"]
