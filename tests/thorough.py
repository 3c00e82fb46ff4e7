"""Which tests `make test` leaves to `make test-all`: those marked `thorough`, and a line that counts them.

A plugin of pytest, loaded by tests/conftest.py. A test is thorough if it tries every case where another test tries a
sample, or if it takes long for what it shows. pytest by itself runs all; `-m "not thorough"` leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["LeftTests", "sampled"]

MARKER = "thorough"

_LEFT = "thorough_tests_left"


def sampled(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Return cases for `parametrize`: `make test` takes the first of every `one_in`, the others are thorough.

    A tuple has a value for each of several names, as for `parametrize`.
    """
    marks = ((), pytest.mark.thorough)
    values = (each if isinstance(each, tuple) else (each,) for each in cases)
    return [pytest.param(*each, marks=marks[index % one_in > 0]) for index, each in enumerate(values)]


class LeftTests:
    """The plugin: it counts the thorough tests that a run leaves out and says so at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.count = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """See tests that are left out."""
        self.count += sum(item.get_closest_marker(MARKER) is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        """Tell the process that started this worker."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output[_LEFT] = self.count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Learn the count from a worker of xdist: each has collected the same tests."""
        self.count = max(self.count, getattr(node, "workeroutput", {}).get(_LEFT, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many were left out."""
        if self.count:
            terminalreporter.line(f"{self.count} thorough tests are left to `make test-all`")


def pytest_configure(config: pytest.Config) -> None:
    """Put the count into this run."""
    config.pluginmanager.register(LeftTests(config))
