"""What every test run shares: the engine named in the header, and how hypothesis searches."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from kafkawire.sdk.protocol.engines.selection import ENGINE

pytest_plugins = ["tests.expected_skips"]

# A busy machine takes long for an example; the time limit is the test's. The same examples in every run, so that a test
# that passed passes again; KAFKAWIRE_TEST_EXAMPLES=random looks for others.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("KAFKAWIRE_TEST_EXAMPLES", "fixed"))


def pytest_report_header(config: pytest.Config) -> str:
    """Name the engine that this run tests."""
    return f"kafkawire engine: {ENGINE}"
