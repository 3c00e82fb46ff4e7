"""Mark as `thorough` the tests that `make test` leaves to `make test-all`, and count those left out of a run.

A pytest plugin, loaded by tests/conftest.py. A test is thorough if it tries every case and another test tries a sample,
or if it is slow for what it is worth. Plain pytest runs all tests; `-m "not thorough"` leaves these out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["IS_SAMPLE", "sampled"]

MARKER = "thorough"

#: Whether this run uses only a few random examples, as `make test` does; see tests/conftest.py.
IS_SAMPLE = os.environ.get("KAFKAWIRE_TEST_EXAMPLES") == "few"

#: The key under which an xdist worker sends its count.
_COUNT = "thorough_tests_left"


def sampled(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Return cases for `parametrize`: the first of every `one_in` runs in `make test`; the others are thorough.

    Args:
        cases: each case is a value, or a tuple of values for several names.
        one_in: the size of the groups.
    """
    marks = ((), pytest.mark.thorough)
    values = (each if isinstance(each, tuple) else (each,) for each in cases)
    return [pytest.param(*each, marks=marks[index % one_in > 0]) for index, each in enumerate(values)]


class _Counter:
    """Counts the thorough tests left out of a run, and prints the count at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.count = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the thorough tests among those left out."""
        self.count += sum(item.get_closest_marker(MARKER) is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        """Send an xdist worker's count to the main process."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output[_COUNT] = self.count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Receive a worker's count; every worker has collected the same tests."""
        self.count = max(self.count, getattr(node, "workeroutput", {}).get(_COUNT, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the count."""
        if self.count:
            terminalreporter.line(f"{self.count} thorough tests are left to `make test-all`")


def pytest_configure(config: pytest.Config) -> None:
    """Register the counter."""
    config.pluginmanager.register(_Counter(config))
