"""Find a Java that Spark runs on, and install one where this user may.

Looks at `JAVA_HOME`, at `java` on the path, and where Debian puts its runtimes. As a command it prints the `JAVA_HOME`
to use, or says on standard error that there is none and exits with 1. Runs on the system's own Python with nothing
installed.
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

__all__ = ["APT_COMMAND", "JAVA_VERSION_MIN", "Java", "find_java", "install_java", "may_use_apt"]

#: Spark 4 runs on Java 17 and newer.
JAVA_VERSION_MIN = 17

#: Debian's runtimes without a desktop, the best known to Spark first; a release of Debian carries one or two of them.
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")

APT_COMMAND = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet", "--no-install-recommends")

#: Where Debian puts its runtimes, one folder each.
DEBIAN_RUNTIMES = Path("/usr/lib/jvm")


class Java(NamedTuple):
    """A Java runtime: its folder (what `JAVA_HOME` names) and its major version."""

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
    """Install a runtime from Debian's packages if this user may, and return it; None where that is not possible."""
    if not may_use_apt():
        return None
    print("Installing Java for Spark", flush=True)
    _quiet([*APT_COMMAND, "update"])
    for package in PACKAGES:
        if _quiet([*APT_COMMAND, "install", package]):
            break
    return find_java()


def may_use_apt() -> bool:
    """Return whether this user can install Debian packages without being asked anything."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve()
    yield from sorted(DEBIAN_RUNTIMES.glob("*/bin/java"))


def _version(command: Path) -> int:
    """Return the major version that a `java` tells, or 0 where it does not run."""
    try:
        told = subprocess.run([str(command), "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def _quiet(command: list[str]) -> bool:
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


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
