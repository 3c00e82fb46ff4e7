"""A small local Spark whose workers run on this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tools.find_java import JAVA_VERSION_MIN, find_java

__all__ = ["local_session"]


@contextmanager
def local_session(**settings: str) -> Iterator[Any]:
    """Start a session without web pages, or skip the test where Spark or Java is missing.

    Args:
        settings: beside those that a small session needs; `_` stands for a dot.
    """
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")
    java = find_java()
    if java is None:
        pytest.skip(f"Spark needs Java {JAVA_VERSION_MIN} or newer, none was found")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java.home)
    builder = (
        sql.SparkSession.builder.master("local[2, 2]")  # two cores, and two attempts at each task
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "Asia/Kolkata")
        # Short queries gain more from a quick start than from good code.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
