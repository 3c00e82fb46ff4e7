"""A command gets a session on this machine, and nothing of what a JVM says when it starts.

Method: a process of its own, as there is one session in each.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkawire.commands.demo_spark import why_not

SESSION = """
from kafkawire.commands.spark_session import start_spark
spark = start_spark("test", None)
conf = spark.sparkContext.getConf()
print(spark.sparkContext.master, conf.get("spark.ui.enabled"), conf.get("spark.app.name"))
spark.stop()
"""


def test_this_machine() -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    command = [sys.executable, "-c", SESSION]
    found = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert found.stdout.split() == ["local[*]", "false", "test"], found.stderr
    assert found.stderr == ""
