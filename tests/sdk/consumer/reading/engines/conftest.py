"""A fixture with the engines that hand out records, for tests of their common behaviour."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

from kafkawire.sdk.records.engines.selection import built

ENGINES = ["python", *(["native"] if built is not None else [])]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> ModuleType:
    """Provide each available engine."""
    return import_module(f"kafkawire.sdk.consumer.reading.engines.{request.param}")
