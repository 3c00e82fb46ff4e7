"""A command gets a session on this machine, without the JVM's startup output, or the reason why none can start.

Method: run each test in a new process, since a process has one session. The search for Java is tested on simulated
machines with parts of the installation missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.commands.pipeline import spark_session
from kafkawire.commands.pipeline.spark_session import why_not
from tests.needs import SPARK
from tests.spark_cluster import spark_command

SESSION = """
from kafkawire.commands.pipeline.spark_session import start_spark
spark = start_spark("test", None, {"spark.sql.shuffle.partitions": "7"})
conf = spark.sparkContext.getConf()
names = ["spark.ui.enabled", "spark.app.name", "spark.sql.shuffle.partitions"]
print(spark.sparkContext.master, *map(conf.get, names))
spark.stop()
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)


@SPARK.mark
@pytest.mark.spark
@pytest.mark.thorough
def test_this_machine() -> None:
    found = run(sys.executable, "-c", SESSION)
    assert found.stdout.split() == ["local[*]", "false", "test", "7"], found.stderr
    assert found.stderr == ""


LOGGING = """
import sys
from kafkawire.commands.pipeline.spark_session import start_spark

def said(rows):
    print("dropped from here", file=sys.stderr, flush=True)
    return rows

def fails(rows):
    raise ValueError("as an exception")

spark = start_spark("test", "local[1]")
print(spark.range(2).mapInArrow(said, "id bigint").count())
try:
    spark.range(2).mapInArrow(fails, "id bigint").count()
except Exception as error:
    print("as an exception" in str(error))
spark.stop()
"""


@SPARK.mark
@pytest.mark.spark
@pytest.mark.thorough
def test_what_workers_log_is_seen() -> None:
    """The JVM's output about a failed task is not shown, because the failure is raised as an exception."""
    found = run(sys.executable, "-c", LOGGING)
    assert found.stdout.split() == ["2", "True"], found.stderr
    assert found.stderr.splitlines() == ["dropped from here"]


@SPARK.mark
@pytest.mark.spark
@pytest.mark.thorough
def test_what_spark_submit_says_counts_more(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SESSION)
    settings = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.sql.shuffle.partitions": "3"}
    given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    found = run(spark_command("spark-submit"), "--master", "local[1]", "--name", "other", *given, str(program))
    assert found.stdout.split() == ["local[1]", "true", "other", "3"], found.stderr


@pytest.mark.parametrize(
    ("package", "java", "text"),
    [
        (None, "java", "pyspark is not installed"),
        ("there", None, "no Java 17 or newer"),
        ("there", "false", "cannot find a Java version in the output of false: ''"),
        ("there", "no-such-java", "cannot run no-such-java: No such file"),
    ],
)
def test_why_not(monkeypatch: pytest.MonkeyPatch, package: str | None, java: str | None, text: str) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda _name: package)
    monkeypatch.setattr(spark_session, "_java", lambda: java)
    assert text in str(why_not())


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ('openjdk version "21" 2023-09-19', None),
        ('Picked up JAVA_TOOL_OPTIONS: -Dname="value"\nopenjdk version "25-ea" 2025-09-16', None),
        ('openjdk version "17.0.9" 2023-10-17', None),
        ('java version "1.8.0_392"', "is Java 8, but Spark needs 17 or newer"),
        ('openjdk version "16" 2021-03-16', "is Java 16, but Spark needs 17 or newer"),
    ],
)
def test_versions_of_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str, text: str | None) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 << END\n{told}\nEND\n")
    java.chmod(0o755)
    monkeypatch.setattr(spark_session, "find_spec", lambda package: package)
    monkeypatch.setattr(spark_session, "_java", lambda: str(java))
    assert why_not() == (text and f"{java} {text}")


@pytest.mark.parametrize(("given", "expected"), [(None, "-XX:TieredStopAtLevel=1"), ("-Dx=y", "-Dx=y")])
def test_a_quick_start(given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options set in the environment take precedence."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", given or "")
    if given is None:
        monkeypatch.delenv("JDK_JAVA_OPTIONS")
    spark_session.starting_quickly()
    assert os.environ["JDK_JAVA_OPTIONS"].startswith(expected)
