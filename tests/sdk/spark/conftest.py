"""A small local Spark, started once for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark_session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a local Spark."""
    with local_session() as session:
        yield session
