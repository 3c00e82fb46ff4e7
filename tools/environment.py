"""Create the virtual environment for the Makefile's targets, and install the package with its extensions into it.

This runs on the system's own Python, with nothing installed. The output of pip is shown only if it fails. A machine
without a C compiler gets the pure-Python engine, and a one-line note about that. Dependencies that are not on PyPI are
installed if this user may do so, and otherwise named in a message.
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

from tools.debian import install_first
from tools.find_java import JAVA_VERSION_MIN, find_java, install_java
from tools.pythons import PYTHON_VERSION_MIN

#: What each kind of environment contains besides the package and its dependencies, as names of extras in
#: pyproject.toml. Each kind includes everything in `core`, because its stamp in the Makefile is treated as that of
#: `core` too.
EXTRAS = {
    "core": ("cli",),
    "test": ("test",),
    "dev": ("dev",),
    "kafka": ("dev", "peers"),
    "bench": ("dev", "bench"),
    "release": ("release",),
}

#: Kinds that never use Spark.
WITHOUT_SPARK = {"test", "release"}

#: Programs that the tests against Apache Kafka run, and the Debian packages that provide them.
KAFKA_PROGRAMS = {"java": "default-jre-headless", "mvn": "maven"}

#: The files from which the extensions are built; if any of them changes, all extensions are rebuilt.
EXTENSION_SOURCES = ("*.pyx", "*.pxd", "*.pxi")


class SetupError(Exception):
    """The environment cannot be created; the text names what is missing and how to get it."""


def main() -> int:
    """Create or update the environment, and return the exit status."""
    parser = argparse.ArgumentParser(description="Create the virtual environment for one kind of work.")
    parser.add_argument("kind", choices=sorted(EXTRAS))
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    arguments = parser.parse_args()
    try:
        check_python_version()
        make_venv(arguments.venv)
        extras = list(dict.fromkeys(EXTRAS["core"] + EXTRAS[arguments.kind]))
        if arguments.kind not in WITHOUT_SPARK:
            extras += spark_extra(install=arguments.kind != "core")
        if arguments.kind == "kafka":
            install_kafka_programs()
        install_package(arguments.venv, extras)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if (note := missing_extension_note(Path("sdk"))) is not None:
        print(note)
    return 0


def check_python_version() -> None:
    """Refuse a Python that is too old, with an error that names it."""
    if sys.version_info < PYTHON_VERSION_MIN:
        found = ".".join(map(str, sys.version_info[:3]))
        least = ".".join(map(str, PYTHON_VERSION_MIN))
        raise SetupError(
            f"Python {least} or newer is required, but {sys.executable} is {found}; use `make PYTHON=python3.12 …`"
        )


def make_venv(venv: Path) -> None:
    """Create `venv` unless a usable one exists.

    Raises:
        SetupError: this Python cannot create one, and the missing package cannot be installed.
    """
    if _has_pip(venv):
        return
    print(f"Creating the virtual environment {venv}", flush=True)
    created = _create(venv)
    if created.returncode and install_first("python3-venv"):
        created = _create(venv)
    if created.returncode:
        raise SetupError(f"`python3 -m venv` failed; Debian has it in python3-venv. Its output:\n{created.stdout}")


def install_package(venv: Path, extras: list[str]) -> None:
    """Install the package in this folder as editable, with `extras`.

    Raises:
        SetupError: pip failed; the text is its output.
    """
    target = f".[{','.join(extras)}]" if extras else "."
    print(f"Installing kafkawire into {venv}" + (f" with {', '.join(extras)}" if extras else ""), flush=True)
    installed = _pip(venv, "install", "--no-input", "--editable", target)
    if installed.returncode:
        raise SetupError(f"pip could not install {target}:\n{installed.stdout}")


def spark_extra(install: bool) -> list[str]:
    """Return the extra for Spark, if this machine has a Java on which Spark runs.

    Args:
        install: whether Java may be installed, in which case its absence deserves a note.
    """
    java = find_java() or (install_java() if install else None)
    if java is None and install:
        print(
            f"Spark is skipped: no Java {JAVA_VERSION_MIN} or newer was found, and this user cannot install one. "
            "To enable its tests, run `apt-get install openjdk-17-jre-headless`, then `make venv`."
        )
    return ["spark"] if java is not None else []


def install_kafka_programs() -> None:
    """Install the programs for the tests against Apache Kafka. If kcat is missing, only its own tests are skipped.

    Raises:
        SetupError: Java or Maven is missing, and this user cannot install it.
    """
    for program, package in KAFKA_PROGRAMS.items():
        if shutil.which(program) is None and not install_first(package):
            raise SetupError(f"{program} is not on the path; on Debian, it is in the package {package}")
    if shutil.which("kcat") is None and not install_first("kcat"):
        print("kcat's tests are skipped: it is not on the path, and this user cannot install it (Debian: kcat).")


def missing_extension_note(folder: Path) -> str | None:
    """Return a one-line note about extensions below `folder` that could not be built, or None if all exist.

    An extension that is older than the sources would run outdated code, so it is removed.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    sources = [path for pattern in EXTENSION_SOURCES for path in folder.rglob(pattern)]
    changed_at = max((source.stat().st_mtime for source in sources), default=0.0)
    missing = False
    for source in sources:
        if source.suffix != ".pyx":
            continue
        built = source.with_name(source.stem + suffix)
        if built.exists() and built.stat().st_mtime < changed_at:
            built.unlink()
        missing = missing or not built.exists()
    if not missing:
        return None
    failed = f"the C compiler ({_compiler()}) failed; `.venv/bin/python setup.py build_ext --inplace` shows the error"
    return f"Note: the pure-Python engine is used, with the same results but slower, because {obstacle() or failed}."


def obstacle() -> str | None:
    """Return why extensions cannot be built on this machine, or None if they can."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python is free-threaded, and the extension relies on the global interpreter lock"
    compiler = _compiler()
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler}) on this machine"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's C headers are missing on this machine (on Debian: python3-dev)"
    return None


def _compiler() -> str:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]


def _has_pip(venv: Path) -> bool:
    """Return whether `venv` exists and works; its Python may be gone after a system upgrade."""
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
