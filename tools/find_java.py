"""Find a Java runtime on which Spark runs, and install one if this user may.

This tool checks `JAVA_HOME`, `java` on the path, and Debian's folders of runtimes. As a command, it prints the
`JAVA_HOME` to use, or reports on standard error that there is none and exits with 1. It runs on the system's own
Python, with nothing installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.debian import install_first, may_install

__all__ = ["JAVA_VERSION_MIN", "Java", "find_java", "install_java"]

#: Spark 4 runs on Java 17 and newer.
JAVA_VERSION_MIN = 17

#: Debian's headless runtimes, beginning with the one preferred for Spark; a Debian release has one or two of them.
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")

#: Debian's folder of runtimes, which has a subfolder for each.
DEBIAN_RUNTIMES = Path("/usr/lib/jvm")


class Java(NamedTuple):
    """A Java runtime: its folder (the value of `JAVA_HOME`) and its major version."""

    home: Path
    version: int


def find_java() -> Java | None:
    """Return the first runtime that is new enough, or None."""
    for command in _candidates():
        version = _version(command)
        if version >= JAVA_VERSION_MIN:
            return Java(command.parent.parent, version)
    return None


def install_java() -> Java | None:
    """Install a runtime from Debian's packages if this user may, and return it; return None if that is not possible."""
    if not may_install():
        return None
    print("Installing Java for Spark", flush=True)
    install_first(*PACKAGES)
    return find_java()


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve()
    yield from sorted(DEBIAN_RUNTIMES.glob("*/bin/java"))


def _version(command: Path) -> int:
    """Return the major version that a `java` reports, or 0 if it does not run."""
    try:
        told = subprocess.run([str(command), "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def main() -> int:
    """Print the `JAVA_HOME` to use and return the exit status."""
    java = find_java()
    if java is None:
        print(f"no Java {JAVA_VERSION_MIN} or newer was found", file=sys.stderr)
        return 1
    print(java.home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
