"""A small local Spark, started once for all tests that need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spark_session import local_session


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a session: it is run apart from the rest."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a local Spark.

    A task that finds no memory ends the JVM, and with it all tests after that one: there is twice what Spark takes by
    itself, as one JVM runs hundreds of queries, four at a time where an audit writes its tables.
    """
    with local_session(spark_driver_memory="2g") as session:
        yield session


@pytest.fixture
def setting(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Return what changes a setting of the session; it has its own value again after the test."""
    before: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)
