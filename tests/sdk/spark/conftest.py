"""A small local Spark, which is started once for all tests that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spark_session import local_session


@pytest.hookimpl(tryfirst=True)  # before `-m` evaluates the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a session; they run apart from the others."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a local Spark.

    A task that runs out of memory kills the JVM, and with it all later tests. The JVM therefore gets twice Spark's
    default, because it runs hundreds of queries, four at a time while an audit writes its tables.
    """
    with local_session(spark_driver_memory="2g") as session:
        yield session


@pytest.fixture
def setting(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Return a function that changes a setting of the session; the setting is restored after the test."""
    before: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)
