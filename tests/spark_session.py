"""A small local Spark whose workers run this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.needs import java_home

__all__ = ["local_session"]

#: Short queries gain more from a fast startup than from optimised code. The code cache keeps its normal size: thousands
#: of tasks would fill 48 MB, the default for the quick compiler alone, and Spark treats a full cache as fatal.
_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

#: The logger that reports an uncaught error in Spark before it ends the JVM.
_UNCAUGHT = "org.apache.spark.util.SparkUncaughtExceptionHandler"


@contextmanager
def local_session(**settings: str) -> Iterator[Any]:
    """Start a session without the web UI, or skip the test if Spark or Java is missing.

    Args:
        settings: settings in addition to those for a small session; `_` stands for a dot.
    """
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = java_home()
    builder = (
        sql.SparkSession.builder.master("local[2, 2]")  # two cores, and two attempts at each task
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "Asia/Kolkata")
        .config("spark.driver.extraJavaOptions", _JVM_OPTIONS)
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    # A fatal error in a task ends the JVM, so every later test fails; only this log line says why.
    log4j = session._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_UNCAUGHT, log4j.Level.ERROR)
    try:
        yield session
    finally:
        status = session.sparkContext._gateway.proc.poll()
        if status is not None:
            raise RuntimeError(f"Spark's JVM ended before its tests did, with status {status}")
        session.stop()
