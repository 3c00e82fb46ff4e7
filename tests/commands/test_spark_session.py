"""A command gets a session on this machine, and nothing of what a JVM says when it starts; or the reason why it cannot.

Method: a process of its own, as there is one session in each. The look for Java is shown machines that lack a part.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkawire.commands import spark_session
from kafkawire.commands.spark_session import why_not

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


@pytest.mark.parametrize(
    ("package", "java", "text"),
    [
        (None, "java", "pyspark is not installed"),
        ("there", None, "no Java 17 or newer"),
        ("there", "false", "older than Java 17"),
    ],
)
def test_why_not(monkeypatch: pytest.MonkeyPatch, package: str | None, java: str | None, text: str) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda _name: package)
    monkeypatch.setattr(spark_session, "_java", lambda: java)
    assert text in str(why_not())
