"""Start a Spark session for a command, or use that of `spark-submit`; and find out why Spark cannot run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["start_spark", "starting_quickly", "why_not"]

#: The oldest Java version on which Spark 4 runs.
OLDEST_JAVA = 17

#: Java 8 calls itself 1.8; the first release of a later version has no dot.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

#: Maximum number of characters of Java's output that are shown if its version cannot be read.
_SHOWN_CHARACTERS = 200

#: Settings for a session on this machine alone, which needs neither a web UI nor connections to other machines.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

#: Settings that override all others. Spark treats a JVM started from Python as a shell, which shows progress.
_OURS = frozenset({"spark.master", "spark.ui.showConsoleProgress"})

#: For a JVM that runs a few dozen short queries, on which the optimizing compiler would spend more time than the
#: queries take. The options are in a variable that the `java` command reads, since a Spark setting would override one
#: in Spark's own files.
_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

#: The name that Spark gives to an unnamed application.
_NO_NAME = "pyspark-shell"

#: Maximum number of bytes of a JVM's output that are shown if it cannot start.
_SHOWN_BYTES = 4000


def start_spark(name: str, master: str | None, more: Mapping[str, str] = {}) -> SparkSession:
    """Return a session whose workers run this Python interpreter.

    Args:
        name: the name of the application.
        master: where Spark runs, such as `local[*]` or `spark://host:7077`; None uses the master set by
            `spark-submit` or the configuration, or this machine if neither sets one.
        more: settings in addition to those of every command; `spark-submit` overrides them.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with _quiet():
        # Only a JVM knows the settings from spark-submit and its files; without a JVM, SparkConf() is empty.
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(more.items())))
    conf = SparkConf()
    where = master or conf.get("spark.master", "local[*]") or "local[*]"
    settings = {"spark.master": where, "spark.app.name": name, "spark.ui.showConsoleProgress": "false"}
    settings |= {"spark.log.level": "OFF"}
    if where.startswith("local"):
        settings |= _LOCAL
        # Few tasks for few cores; data that does not fit into memory goes to disk.
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    builder = SparkSession.builder
    for key, value in {**settings, **more}.items():
        if key in _OURS or conf.get(key) in {None, _NO_NAME}:
            builder = builder.config(key, value)
    with _quiet():
        session: SparkSession = builder.getOrCreate()
    return session


def starting_quickly() -> None:
    """Make the JVM of `start_spark` compile quickly rather than well, unless the environment configures it.

    This halves the CPU time for auditing a few megabytes, but increases that for auditing gigabytes.
    """
    os.environ.setdefault(_JAVA_OPTIONS, _QUICK)


def why_not() -> str | None:
    """Return the reason why Spark cannot run here, or None if it can."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "pyspark is not installed (pip install 'kafkawire[spark]')"
    java = _java()
    if java is None:
        return f"no Java {OLDEST_JAVA} or newer was found"
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        return f"cannot run {java}: {error.strerror}"
    version = _VERSION.search(told)
    if version is None:
        return f"cannot find a Java version in the output of {java}: {told.strip()[:_SHOWN_CHARACTERS]!r}"
    if int(version[1]) < OLDEST_JAVA:
        return f"{java} is Java {version[1]}, but Spark needs {OLDEST_JAVA} or newer"
    return None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back the standard error output of a JVM that is started in the block; if startup fails, show its end.

    A JVM writes a dozen lines about itself at any log level. Output after startup, such as the workers' logs, is shown.
    """
    sys.stderr.flush()
    own = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    held, is_held = bytearray(), True

    def pass_on() -> None:
        while content := os.read(reading, _SHOWN_BYTES):
            if is_held:
                held[:] = (held + content)[-_SHOWN_BYTES:]
            else:
                os.write(2, content)
        os.close(reading)

    threading.Thread(target=pass_on, name="stderr of Spark", daemon=True).start()
    try:
        yield
    except BaseException:
        os.write(own, held)
        raise
    finally:
        is_held = False
        os.dup2(own, 2)
        os.close(own)
