"""Make the virtual environment that the Makefile's targets run in, and install the package into it with its extensions.

Runs on the system's own Python with nothing installed. What pip prints is shown only when it fails. A machine without
a C compiler gets the pure-Python engine, and one line that says so; what is missing beyond PyPI is installed where this
user may do that, and named where not.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.find_java import APT_COMMAND, JAVA_VERSION_MIN, find_java, install_java, may_use_apt

#: What each kind of environment holds beside the package and its own dependencies: names of extras in pyproject.toml.
EXTRAS = {"core": (), "dev": ("dev",), "bench": ("dev", "bench")}

PYTHON_VERSION_MIN = (3, 11)


class SetupError(Exception):
    """The environment cannot be made; the text says what is missing and how to get it."""


def main() -> int:
    """Make or update the environment and return the exit status."""
    parser = argparse.ArgumentParser(description="Make the virtual environment of one kind of work.")
    parser.add_argument("kind", choices=sorted(EXTRAS))
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    arguments = parser.parse_args()
    try:
        check_python_version()
        make_venv(arguments.venv)
        install_package(arguments.venv, [*EXTRAS[arguments.kind], *spark_extra(install=arguments.kind != "core")])
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if (note := missing_extension_note(Path("sdk"))) is not None:
        print(note)
    return 0


def check_python_version() -> None:
    """Refuse a Python that is too old, by name."""
    if sys.version_info < PYTHON_VERSION_MIN:
        found = ".".join(map(str, sys.version_info[:3]))
        raise SetupError(f"Python 3.11 or newer is needed, {sys.executable} is {found}: `make PYTHON=python3.11 …`")


def make_venv(venv: Path) -> None:
    """Make `venv` unless a usable one is there.

    Raises:
        SetupError: this Python cannot make one, and what it lacks cannot be installed.
    """
    if _has_pip(venv):
        return
    print(f"Making the virtual environment {venv}", flush=True)
    created = _create(venv)
    if created.returncode and may_use_apt():
        _run([*APT_COMMAND, "update"])
        _run([*APT_COMMAND, "install", "python3-venv"])
        created = _create(venv)
    if created.returncode:
        raise SetupError(f"`python3 -m venv` failed; Debian has it in python3-venv. It said:\n{created.stdout}")


def install_package(venv: Path, extras: list[str]) -> None:
    """Install the package of this folder, editable, with `extras`.

    Raises:
        SetupError: pip failed; the text is what it printed.
    """
    target = f".[{','.join(extras)}]" if extras else "."
    print(f"Installing kafkawire into {venv}" + (f" with {', '.join(extras)}" if extras else ""), flush=True)
    installed = _pip(venv, "install", "--no-input", "--editable", target)
    if installed.returncode:
        raise SetupError(f"pip could not install {target}:\n{installed.stdout}")


def spark_extra(install: bool) -> list[str]:
    """Return the extra that Spark needs, if this machine has the Java that Spark runs on.

    Args:
        install: whether Java may be installed, and its absence deserves a line.
    """
    java = find_java() or (install_java() if install else None)
    if java is None and install:
        print(
            f"Spark is left out: no Java {JAVA_VERSION_MIN} or newer was found, and this user cannot install one. "
            "`apt-get install openjdk-17-jre-headless`, then `make venv`, brings its tests in."
        )
    return ["spark"] if java is not None else []


def missing_extension_note(folder: Path) -> str | None:
    """Return one line about extensions that could not be built below `folder`, or None when all are there.

    An extension that is older than its source would answer for code that is gone; it is removed.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    missing = False
    for source in sorted(folder.glob("*/engines/*.pyx")):
        built = source.with_name(source.stem + suffix)
        if built.exists() and built.stat().st_mtime < source.stat().st_mtime:
            built.unlink()
        missing = missing or not built.exists()
    if not missing:
        return None
    return f"Note: the pure-Python engine is used, with the same results but slower, because {_obstacle()}."


def _obstacle() -> str:
    """Return why extensions do not build here."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler}) on this machine"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's C headers are missing on this machine (on Debian: python3-dev)"
    return f"the C compiler ({compiler}) failed; `.venv/bin/python setup.py build_ext --inplace` shows how"


def _has_pip(venv: Path) -> bool:
    """Return whether `venv` is there and whole: its Python may be gone after an upgrade of the system's."""
    return (venv / "bin" / "python").exists() and _pip(venv, "--version").returncode == 0


def _pip(venv: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _run([str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments])


def _create(venv: Path) -> subprocess.CompletedProcess[str]:
    shutil.rmtree(venv, ignore_errors=True)
    return _run([sys.executable, "-m", "venv", str(venv)])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
