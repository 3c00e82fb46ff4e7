"""What every test run shares: the engine named in the header, and how hypothesis searches."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from kafkawire.sdk.protocol.engines.selection import ENGINE

pytest_plugins = ["tests.expected_skips"]

# An example takes as long as the machine is busy; the time limit is the test's.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_report_header(config: pytest.Config) -> str:
    """Name the engine that this run tests."""
    return f"kafkawire engine: {ENGINE}"
