"""Records are handed out by the engine that the environment selects.

Method: start a separate process for each available engine.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sdk.records.conftest import AVAILABLE

PROGRAM = """
from kafkawire.sdk.consumer.reading import engine
from kafkawire.sdk.consumer.reading.engines import {module} as wanted
print(*(getattr(engine, name) is getattr(wanted, name) for name in engine.__all__))
"""


@pytest.mark.parametrize("name", AVAILABLE)
def test_engine_of_the_environment(name: str) -> None:
    program = PROGRAM.format(module="native" if name == "native" else "python")
    environment = {**os.environ, "KAFKAWIRE_ENGINE": name}
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == ["True"] * 3
