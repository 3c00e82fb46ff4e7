"""Test requirements that a machine may not meet; these are the only reasons to skip a test.

    @EXTENSION.mark                  # a test, a test's parameter, or a module's `pytestmark`
    EXTENSION.require()              # in a test, a fixture, or a module
    pytest.importorskip("pyarrow")   # a package from an extra, which pip installs on request

On a machine that should meet the requirement, the test fails instead of being skipped. `tools/tidy.py` refuses any
other skip.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kafkawire.commands.pipeline.spark_session import why_not
from kafkawire.sdk.protocol.engines import selection as protocol
from kafkawire.sdk.records.engines import selection as records
from tests.reference_broker.security.sasl.kerberos_realm import is_installed
from tools.debian import can_install
from tools.environment import obstacle
from tools.find_java import JAVA_VERSION_MIN, find_java

__all__ = [
    "EXTENSION",
    "FULL_DEVICE",
    "JAVA",
    "JAVAC",
    "KCAT",
    "KERBEROS",
    "LINUX",
    "NATIVE_ENGINE",
    "OPENSSL",
    "PUSHDOWN",
    "PYTHON_3_12",
    "SPARK",
    "SYSTEMD",
    "Need",
    "java_home",
]


class Need:
    """A requirement of some tests."""

    def __init__(self, name: str, is_met: Callable[[], bool], may_lack: Callable[[], bool] = lambda: True) -> None:
        """Define a requirement.

        Args:
            name: the text after "needs" in the reason for a skip.
            is_met: returns whether this machine meets it.
            may_lack: returns whether this machine is excused from meeting it; called only if it does not.
        """
        self._name = name
        self._is_met = is_met
        self._may_lack = may_lack

    @property
    def mark(self) -> pytest.MarkDecorator:
        """Mark a test to be skipped if the requirement is not met; if the machine should meet it, the test fails."""
        return pytest.mark.skipif(not self._is_met() and self._may_lack(), reason=f"needs {self._name}")

    def require(self) -> None:
        """Skip the running test or the collected module if the requirement is not met, or fail if it should be met."""
        __tracebackhide__ = True  # makes pytest point to the test's line
        if self._is_met():
            return
        if not self._may_lack():
            pytest.fail(f"needs {self._name}, which this machine should have", pytrace=False)
        pytest.skip(f"needs {self._name}", allow_module_level=True)


def java_home() -> str:
    """Return the home folder of the Java that Spark runs on; skip the running test if there is none."""
    JAVA.require()
    java = find_java()
    assert java is not None
    return str(java.home)


def _is_other_engine_wanted() -> bool:
    return os.environ.get("KAFKAWIRE_ENGINE", "") in ("python", "construct")


def _has_pushdown() -> bool:
    from pyspark.sql import datasource

    return hasattr(datasource, "EqualTo")


@cache
def _spark_obstacle() -> str | None:
    return why_not()


#: The compiled modules, whichever engine is in use.
EXTENSION = Need("the extension", lambda: records.built is not None, lambda: obstacle() is not None)
#: The native engine is in use.
NATIVE_ENGINE = Need(
    "the native engine",
    lambda: protocol.native is not None,
    lambda: _is_other_engine_wanted() or obstacle() is not None,
)

JAVA = Need(f"Java {JAVA_VERSION_MIN} or newer", lambda: find_java() is not None)
SPARK = Need("pyspark and its Java", lambda: _spark_obstacle() is None)
PUSHDOWN = Need("filters for sources in Python, which pyspark has from 4.1 on", _has_pushdown)

OPENSSL = Need("the program openssl", lambda: shutil.which("openssl") is not None)
KERBEROS = Need("the programs of an MIT Kerberos realm", is_installed)
JAVAC = Need("the program javac", lambda: shutil.which("javac") is not None)
KCAT = Need("the program kcat", lambda: shutil.which("kcat") is not None, lambda: not can_install("kcat"))

#: The first Python with eager tasks, and with `__buffer__` in classes; its stand-in in `tests/hostile.py` cannot raise.
PYTHON_3_12 = Need("Python 3.12", lambda: sys.version_info >= (3, 12))

SYSTEMD = Need("the program systemd-analyze", lambda: shutil.which("systemd-analyze") is not None)

LINUX = Need("Linux", lambda: sys.platform == "linux")
FULL_DEVICE = Need("a device that is always full", Path("/dev/full").exists)
