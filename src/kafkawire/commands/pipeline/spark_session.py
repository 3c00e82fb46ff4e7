"""The session of Spark that a command runs in, that of `spark-submit` or one of its own; and why there can be none."""

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

#: The oldest Java that Spark 4 runs on.
OLDEST_JAVA = 17

#: Java 8 called itself 1.8; the first release of a version has no dot.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

#: Of what a Java says that does not tell its version.
_SHOWN_CHARACTERS = 200

#: Settings of a session on this machine alone: nobody looks at its pages, and it talks to nobody else.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

#: Settings of ours that count most. A JVM that is started from Python is taken for a shell, which shows progress.
_OURS = frozenset({"spark.master", "spark.ui.showConsoleProgress"})

#: For a JVM that runs some dozens of short queries: what would compile them better takes longer than they do. It is the
#: variable of the `java` command, as a setting of Spark's would take the place of one in its own files.
_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

#: What Spark calls an application that nobody named.
_NO_NAME = "pyspark-shell"

#: Of what a JVM says when it cannot start.
_SHOWN_BYTES = 4000


def start_spark(name: str, master: str | None, more: Mapping[str, str] = {}) -> SparkSession:
    """Return a session whose workers run on this Python.

    Args:
        name: of the application.
        master: where Spark runs, such as `local[*]` or `spark://host:7077`; None for what `spark-submit` or the
            configuration say, or else this machine.
        more: settings beside those of every command; what `spark-submit` says counts more.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with _quiet():
        # What spark-submit and its files say is known to the JVM alone: without one, SparkConf() is empty.
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(more.items())))
    conf = SparkConf()
    where = master or conf.get("spark.master", "local[*]") or "local[*]"
    settings = {"spark.master": where, "spark.app.name": name, "spark.ui.showConsoleProgress": "false"}
    settings |= {"spark.log.level": "OFF"}
    if where.startswith("local"):
        settings |= _LOCAL
        # Few tasks on few cores; what does not fit into memory goes to disk.
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    builder = SparkSession.builder
    for key, value in {**settings, **more}.items():
        if key in _OURS or conf.get(key) in {None, _NO_NAME}:
            builder = builder.config(key, value)
    with _quiet():
        session: SparkSession = builder.getOrCreate()
    return session


def starting_quickly() -> None:
    """Have the JVM that `start_spark` starts compile quickly, not well, unless the environment says otherwise.

    The audit of some megabytes takes half the CPU then, and that of gigabytes more.
    """
    os.environ.setdefault(_JAVA_OPTIONS, _QUICK)


def why_not() -> str | None:
    """Return why Spark cannot run here, None if it can."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "pyspark is not installed (pip install 'kafkawire[spark]')"
    java = _java()
    if java is None:
        return f"there is no Java {OLDEST_JAVA} or newer here"
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        return f"{java} cannot be run: {error.strerror}"
    version = _VERSION.search(told)
    if version is None:
        return f"{java} does not tell its version: {told.strip()[:_SHOWN_CHARACTERS]!r}"
    if int(version[1]) < OLDEST_JAVA:
        return f"{java} is Java {version[1]}, and Spark needs {OLDEST_JAVA} or newer"
    return None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what a JVM that is started meanwhile writes to standard error; show the end of it if that fails.

    It writes a dozen lines about itself, whatever its log level. What it writes later is shown: lines of workers' logs.
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
