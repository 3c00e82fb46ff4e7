"""A ZooKeeper server is found in Spark's jars or Debian's; if a part is missing, the error says what to install.

Method: create folders that look like an installation; then try the real program, if this machine has one.
"""

from __future__ import annotations

import importlib.machinery
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkawire.local_cluster import zookeeper_server
from kafkawire.local_cluster.cluster_folder import ClusterError
from kafkawire.local_cluster.zookeeper_server import find_zookeeper, zookeeper_properties
from tests.needs import SPARK

JARS = [
    "zookeeper-3.9.5.jar",
    "zookeeper-jute-3.9.5.jar",
    "netty-handler-4.2.13.Final.jar",
    "metrics-core-4.2.37.jar",
    "snappy-java-1.1.10.8.jar",
    "slf4j-api-2.0.17.jar",
    "log4j-slf4j2-impl-2.25.4.jar",
    "log4j-api-2.25.4.jar",
    "log4j-core-2.25.4.jar",
]


class Machine:
    """A machine on which nothing is installed at first; tests add parts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(folder / "bin"))
        monkeypatch.setattr(zookeeper_server, "_DEBIAN_RUNTIMES", folder / "jvm")
        monkeypatch.setattr(zookeeper_server, "DEBIAN_JAR", folder / "zookeeper.jar")
        self.add_spark([])

    def add_java(self, name: str) -> Path:
        path = self._folder / name / "java"
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def add_spark(self, jars: list[str]) -> None:
        (self._folder / "pyspark" / "jars").mkdir(parents=True, exist_ok=True)
        for jar in jars:
            (self._folder / "pyspark" / "jars" / jar).touch()
        spec = importlib.machinery.ModuleSpec("pyspark", None, is_package=True)
        spec.submodule_search_locations = [str(self._folder / "pyspark")]
        self._monkeypatch.setattr(zookeeper_server, "find_spec", lambda name: spec if jars else None)

    def add_debian(self) -> Path:
        path = self._folder / "zookeeper.jar"
        path.touch()
        return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_is_missing_is_named(machine: Machine) -> None:
    with pytest.raises(
        ClusterError, match=r"install Java \(.*default-jre-headless\) and its jars \(pip .*'\w+\[spark\]'"
    ):
        find_zookeeper()
    machine.add_java("bin")
    with pytest.raises(ClusterError, match=r"install its jars \(pip .*apt-get install zookeeper\); or pass"):
        find_zookeeper()


def test_java_alone_is_missing(machine: Machine) -> None:
    machine.add_debian()
    with pytest.raises(ClusterError, match=r"install Java \([^)]*\); or pass"):
        find_zookeeper()


def test_jars_of_spark_come_before_those_of_debian(machine: Machine) -> None:
    java = machine.add_java("bin")
    jar = machine.add_debian()
    assert find_zookeeper() == (java, (jar,))
    machine.add_spark([*JARS, "netty-tcnative-classes-2.0.76.Final.jar", "netty-buffer-4.2.13.Final.jar"])
    assert sorted(path.name for path in find_zookeeper().classpath) == sorted([*JARS, "netty-buffer-4.2.13.Final.jar"])


def test_a_spark_without_a_jar_that_is_needed(machine: Machine) -> None:
    machine.add_java("bin")
    jar = machine.add_debian()
    machine.add_spark(JARS[1:])
    assert find_zookeeper().classpath == (jar,)


def test_order_of_javas(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.add_debian()
    debian = machine.add_java("jvm/java-17/bin")
    assert find_zookeeper().java == debian
    on_path = machine.add_java("bin")
    assert find_zookeeper().java == on_path
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_zookeeper().java == on_path
    chosen = machine.add_java("home/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_zookeeper().java == chosen


def test_it_listens_on_loopback_alone() -> None:
    properties = zookeeper_properties(Path("data"), 2181)
    assert properties.items() >= {"clientPortAddress": "127.0.0.1", "clientPort": "2181", "dataDir": "data"}.items()
    assert properties["admin.enableServer"] == "false"


@SPARK.mark
def test_the_classes_of_the_real_program_are_there(tmp_path: Path) -> None:
    """The server refuses a missing configuration file, but only after loading all classes that it needs to start."""
    program = find_zookeeper()
    assert shutil.which(str(program.java)) is not None
    ran = subprocess.run(
        program.command(str(tmp_path / "none")), capture_output=True, text=True, check=False, timeout=60
    )
    assert "is missing" in ran.stdout + ran.stderr
    assert "NoClassDefFoundError" not in ran.stdout + ran.stderr
