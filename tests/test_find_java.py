"""Java is found wherever it is installed, but only if it is new enough.

Method: programs named `java` in temporary folders report their versions as real ones do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import find_java as module
from tools.find_java import Java, find_java, install_java

#: the output of `java -version`, and the major version in it
VERSIONS = [
    ('openjdk version "17.0.15" 2025-04-15', 17),
    ('openjdk version "21" 2023-09-19', 21),
    ('java version "1.8.0_292"', 8),
    ("no version here", 0),
]


@pytest.fixture
def runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder that is searched for runtimes; neither the path nor the environment has a runtime."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(module, "DEBIAN_RUNTIMES", tmp_path / "jvm")
    return tmp_path / "jvm"


def add_runtime(home: Path, told: str) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{told}' >&2\n", "utf-8")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(("told", "version"), VERSIONS)
def test_version_is_read(runtimes: Path, told: str, version: int) -> None:
    add_runtime(runtimes / "some", told)
    expected = Java(runtimes / "some", version) if version >= module.JAVA_VERSION_MIN else None
    assert find_java() == expected


def test_newest_enough_is_taken(runtimes: Path) -> None:
    add_runtime(runtimes / "java-11", 'openjdk version "11.0.2"')
    add_runtime(runtimes / "java-17", 'openjdk version "17.0.1"')
    assert find_java() == Java(runtimes / "java-17", 17)


def test_java_home_comes_first(runtimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_runtime(runtimes / "java-17", 'openjdk version "17.0.1"')
    add_runtime(tmp_path / "mine", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    assert find_java() == Java(tmp_path / "mine", 21)


def test_link_on_the_path_leads_to_its_home(runtimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = add_runtime(tmp_path / "real", 'openjdk version "17.0.1"')
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "java").symlink_to(command)
    assert find_java() == Java(tmp_path / "real", 17)


@pytest.mark.usefixtures("runtimes")
def test_nothing_is_found_nothing_installed() -> None:
    assert find_java() is None
    assert install_java() is None  # no apt-get on the path
