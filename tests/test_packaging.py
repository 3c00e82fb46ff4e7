"""A complete wheel can be built from the source archive, with or without a C compiler, and runs once installed.

Method: let the build backend make an sdist from a copy of the tree, and three wheels from the unpacked sdist: with a
compiler that fails, with this machine's compiler if it has one, and deliberately without extensions. Import the package
from each unpacked wheel in a new process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.environment import EXTENSION_SOURCES, obstacle

ROOT = Path(__file__).parent.parent

# On a busy machine, a compiler takes longer than a test's usual limit.
pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]

#: Folders of the checkout that make up the package, through links below src/kafkawire/.
PACKAGES = ("codegen", "conformance", "reference_broker", "schemas", "sdk")

#: Suffixes of files that are read at runtime or by type checkers.
DATA_SUFFIXES = {".py", ".pyi", ".typed", ".yaml", ".json", ".gz", ".css", ".jinja"}

#: Suffixes of extension sources; of these, a wheel contains only the generated ones, which `codegen check` compares.
SOURCE_SUFFIXES = {".c", ".h", ".pyx", ".pxi", ".pxd"}

NO_COMPILER = {"CC": "/bin/false"}

BUILD = "import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"

TABLES = Path("kafkawire/sdk/protocol/tables")

CHECK_GENERATED = """
import sys
import kafkawire
from kafkawire.commands.main import main
assert kafkawire.__file__.startswith(sys.argv[1])
sys.exit(main(["codegen", "check"]))
"""

SHOW_ENGINES = """
import kafkawire
from kafkawire.protocol import codec
from kafkawire.records import BatchBuilder
print(kafkawire.__file__, codec("HeartbeatRequest", 0).engine, BatchBuilder.__module__.rsplit(".")[-1])
"""


def build(hook: str, folder: Path, into: Path, **environment: str) -> Path:
    """Run one hook of the build backend, and return the resulting archive."""
    outcome = subprocess.run(
        [sys.executable, "-c", BUILD.format(hook=hook), str(into)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    (archive,) = into.iterdir()
    return archive


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree that is like a fresh clone."""
    folder = tmp_path_factory.mktemp("packaging") / "tree"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.so", "*.c")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=unwanted)
    return folder


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the unpacked source archive."""
    archive = build("build_sdist", tree, tmp_path_factory.mktemp("sdist"), **NO_COMPILER)
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder)], check=True)
    (unpacked,) = folder.iterdir()
    return unpacked


@pytest.fixture(scope="module")
def native_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel built from the source archive on this machine."""
    return build_wheel(sdist, tmp_path_factory.mktemp("native"), CFLAGS="-O0")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel built from the source archive with a failing compiler."""
    return build_wheel(sdist, tmp_path_factory.mktemp("python"), **NO_COMPILER)


def build_wheel(sdist: Path, folder: Path, **environment: str) -> Path:
    """Build a wheel in a fresh copy of the source archive, without files left over from other builds."""
    shutil.copytree(sdist, folder / "source")
    (folder / "wheel").mkdir()
    return build("build_wheel", folder / "source", folder / "wheel", **environment)


def unpack(wheel: Path) -> Path:
    """Return the folder with a wheel's installed files."""
    folder = wheel.parent.parent / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def engines(installed: Path) -> list[str]:
    """Return the package's import location, and the engines of its messages and records."""
    return run(installed, SHOW_ENGINES).split()


def run(installed: Path, code: str) -> str:
    """Return the output of a program that imports the package from a folder."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    environment.pop("KAFKAWIRE_ENGINE", None)
    command = [sys.executable, "-c", code, str(installed)]
    outcome = subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    return outcome.stdout


def files(folder: Path, suffixes: set[str]) -> set[Path]:
    """Return the files below `folder` that have one of these suffixes."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.suffix in suffixes}


def test_sdist_has_the_sources_of_the_extensions(tree: Path, sdist: Path) -> None:
    expected = {path.relative_to(tree) for pattern in EXTENSION_SOURCES for path in (tree / "sdk").rglob(pattern)}
    assert {path.suffix for path in expected} >= {".pyx", ".pxi"}
    shipped = files(sdist / "src" / "kafkawire", SOURCE_SUFFIXES)
    assert shipped == expected


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_is_whole(tree: Path, wheel: Path, package: str) -> None:
    """The wheel contains every file of the tree that is needed after installation, and no others."""
    expected = {path for path in files(tree / package, DATA_SUFFIXES) if "vector_generator" not in path.parts}
    assert expected
    assert files(unpack(wheel) / "kafkawire" / package, DATA_SUFFIXES) == expected


def test_wheel_is_typed_and_squats_no_name(wheel: Path) -> None:
    installed = unpack(wheel)
    assert (installed / "kafkawire" / "py.typed").exists()
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"kafkawire"}


def test_wheel_of_a_compiler_is_native(native_wheel: Path) -> None:
    installed = unpack(native_wheel)
    native = obstacle() is None
    where, protocol, records = engines(installed)
    assert where == str(installed / "kafkawire" / "__init__.py")
    assert (protocol, records == "native") == ("native" if native else "python", native)
    assert len(files(installed, {".so"})) == (len(list((ROOT / "sdk").rglob("*.pyx"))) if native else 0)
    assert all(TABLES in path.parents for path in files(installed, SOURCE_SUFFIXES))


def test_wheel_without_a_compiler_is_python(wheel: Path) -> None:
    installed = unpack(wheel)
    where, protocol, records = engines(installed)
    assert (where, protocol) == (str(installed / "kafkawire" / "__init__.py"), "python")
    assert records != "native"
    assert all(TABLES in path.parents for path in files(installed, SOURCE_SUFFIXES | {".so"}))


def test_pure_wheel_is_for_every_platform(sdist: Path, tmp_path: Path) -> None:
    wheel = build_wheel(sdist, tmp_path, KAFKAWIRE_PURE="1")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert all(TABLES in path.parents for path in files(unpack(wheel), SOURCE_SUFFIXES | {".so"}))


def test_an_installed_package_has_all_that_is_generated(wheel: Path) -> None:
    assert "files match their schemas" in run(unpack(wheel), CHECK_GENERATED)
