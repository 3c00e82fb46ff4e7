"""Find the supported Python versions on this machine, on the path and in pyenv.

    python tools/pythons.py        the versions found, except this interpreter's: 3.12 3.13
    python tools/pythons.py 3.12   the path of one

This runs on the system's own Python, with nothing installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PYTHON_VERSION_MIN", "VERSIONS", "find_pythons"]

#: The version in Debian 12, which is also the value of `requires-python` in pyproject.toml.
PYTHON_VERSION_MIN = (3, 11, 2)

#: Minor versions with which the package is tested; the classifiers in pyproject.toml list them too.
VERSIONS = ("3.11", "3.12", "3.13", "3.14")

_SHOW = "import sys, venv; print(sys.executable, *sys.version_info[:3])"


def find_pythons() -> dict[str, Path]:
    """Return one interpreter for each supported version on this machine, including this one."""
    found = {}
    for version in VERSIONS:
        interpreters = filter(None, (_interpreter(candidate, version) for candidate in _candidates(version)))
        if (interpreter := next(interpreters, None)) is not None:
            found[version] = interpreter
    return found


def _candidates(version: str) -> Iterator[str]:
    if version == _this_version():
        yield sys.executable
    if on_path := shutil.which(f"python{version}"):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python")))


def _interpreter(candidate: str, version: str) -> Path | None:
    """Return the interpreter of a candidate, or None, since a pyenv shim may be for a version that is not enabled."""
    outcome = subprocess.run([candidate, "-c", _SHOW], check=False, capture_output=True, text=True)
    if outcome.returncode:
        return None
    executable, *numbers = outcome.stdout.rsplit(maxsplit=3)
    release = tuple(map(int, numbers))
    return Path(executable) if release >= PYTHON_VERSION_MIN and version == "{}.{}".format(*release) else None


def _this_version() -> str:
    return "{}.{}".format(*sys.version_info)


def main(arguments: list[str]) -> int:
    """Print the requested Python versions or paths, and return the exit status."""
    found = find_pythons()
    if not arguments:
        print(*(version for version in found if version != _this_version()))
        return 0
    (version,) = arguments
    if version not in found:
        print(f"no Python {version} was found on this machine", file=sys.stderr)
        return 1
    print(found[version])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
