"""Which tests may be skipped, why and when. A skip that nothing here expects fails the run in CI.

A plugin of pytest, loaded by tests/conftest.py: it compares every skip of a run with `EXPECTED`, and prints the rest.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from kafkawire.sdk.protocol.engines.selection import ENGINE
from tests.kafka.programs import PROGRAMS
from tests.kafka.programs import obstacle as program_obstacle
from tools.debian import can_install
from tools.environment import obstacle
from tools.find_java import find_java

__all__ = ["EXPECTED", "ExpectedSkip", "SkipCheck"]


class ExpectedSkip(NamedTuple):
    """Tests that may be skipped: patterns of their ids and of the reason that they give, and when."""

    tests: str
    reason: str
    may_occur: Callable[[], bool]


def _no_extension() -> bool:
    return obstacle() is not None


def _no_spark() -> bool:
    return find_java() is None


def _no_pyspark() -> bool:
    return find_spec("pyspark") is None


def _no_kcat() -> bool:
    return shutil.which("kcat") is None and not can_install("kcat")


def _no_tools_of_clients() -> bool:
    return any(program_obstacle(program) for program in PROGRAMS)


def _always() -> bool:
    return True


EXPECTED = (
    # The engine in use is not the one that these test.
    ExpectedSkip("tests/sdk/protocol/*native*", "*extension is not built or not wanted", lambda: ENGINE != "native"),
    ExpectedSkip("tests/test_fuzz_records*", "*extension is not built or not wanted", lambda: ENGINE != "native"),
    # The checkers come with the tools of development, and pyright needs a Node.js that starts.
    ExpectedSkip("tests/test_type_checkers.py::*", "mypy is not installed", lambda: find_spec("mypy") is None),
    ExpectedSkip("tests/test_type_checkers.py::*", "pyright *", _always),
    # Extensions need a C compiler and Python's headers.
    ExpectedSkip("tests/sdk/*", "*extension is not built here", _no_extension),
    # Spark needs Java.
    ExpectedSkip("tests/*spark*", "*pyspark*", _no_spark),
    # The environments of `make test-pythons` do not have it: what needs no Spark is tested there.
    ExpectedSkip("tests/sdk/spark/*", "*pyspark*", _no_pyspark),
    ExpectedSkip("tests/*spark*", "*Java*", _no_spark),
    ExpectedSkip("tests/sdk/spark/*", "*numpy*", lambda: find_spec("numpy") is None),
    ExpectedSkip("tests/commands/test_pipeline.py*", "*pyspark*", _no_spark),
    ExpectedSkip("tests/commands/test_pipeline.py*", "*Java*", _no_spark),
    ExpectedSkip("tests/test_exports.py::*", "*needs pyspark", _no_spark),
    # The jars of a release come with `make test-kafka`, and tests/kafka/test_import_release.py reads them there.
    ExpectedSkip("tests/codegen/*", "needs the jars of Kafka *", _always),
    # A combination of parameters that cannot be.
    ExpectedSkip("tests/sdk/protocol/*", "an empty view cannot be cast", _always),
    # A class can have `__buffer__` from Python 3.12 on; tests/hostile.py stands in for it, but cannot raise.
    ExpectedSkip("tests/*hostile*", "before Python 3.12 *", lambda: sys.version_info < (3, 12)),
    # The packages of OpenTelemetry come with the extra `test`.
    ExpectedSkip("tests/*", "*needs opentelemetry*", lambda: find_spec("opentelemetry") is None),
    ExpectedSkip("tests/sdk/test_event_loops.py*", "before Python 3.12 *", lambda: sys.version_info < (3, 12)),
    # uvloop comes with the extra `test`, where there is one for the Python in use.
    ExpectedSkip("tests/sdk/test_event_loops.py*", "*uvloop*", lambda: find_spec("uvloop") is None),
    ExpectedSkip("tests/reference_broker/*", "*uvloop*", lambda: find_spec("uvloop") is None),
    # Certificates for tests are made by openssl, which is not part of Python.
    ExpectedSkip("tests/*", "the program openssl is not installed", lambda: shutil.which("openssl") is None),
    # kcat is a package of Debian, which only root installs, and only if the machine reaches a mirror.
    ExpectedSkip("tests/kafka/test_kcat.py::*", "kcat is not installed", _no_kcat),
    # Other people's clients are built with the tools of their languages, the Java client with those of a JDK.
    ExpectedSkip("tests/kafka/test_programs.py::*", "* or newer is not installed", _no_tools_of_clients),
    ExpectedSkip("tests/kafka/test_programs.py::*", "* has no wheel for this Python", _no_tools_of_clients),
)


class SkipCheck:
    """The plugin: it collects the skips of a run and judges them at its end."""

    def __init__(self, expected: tuple[ExpectedSkip, ...] = EXPECTED) -> None:
        self._expected = expected
        self._unexpected: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See a test that was run or skipped."""
        self._see(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """See a module that was collected or skipped as a whole."""
        self._see(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run in CI if something was skipped that nothing expects."""
        if self._unexpected and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was skipped and is not expected."""
        if self._unexpected:
            terminalreporter.section("skipped, and tests/expected_skips.py does not expect it")
            for line in sorted(self._unexpected):
                terminalreporter.line(line)

    def _see(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not any(
            fnmatchcase(report.nodeid, skip.tests) and fnmatchcase(reason, skip.reason) and skip.may_occur()
            for skip in self._expected
        ):
            self._unexpected.add(f"{report.nodeid}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    """Put the check into this run."""
    if not hasattr(config, "workerinput"):  # a worker of xdist reports to the process that started it
        config.pluginmanager.register(SkipCheck())
