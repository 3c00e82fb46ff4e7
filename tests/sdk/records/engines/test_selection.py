"""The environment selects the record engine.

Method: start a new process for each value of KAFKAWIRE_ENGINE.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.needs import EXTENSION

PROGRAM = (
    "from kafkawire.sdk.records import RecordBatch; from kafkawire.sdk.records.engines import selection; "
    "print(selection.native is not None, RecordBatch.__module__)"
)


@pytest.mark.parametrize("name", ["python", "construct", "native"])
def test_engine_of_the_environment(name: str) -> None:
    if name == "native":
        EXTENSION.require()
    environment = {**os.environ, "KAFKAWIRE_ENGINE": name}
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    modules = {"python": "python_batch", "construct": "construct", "native": "native"}
    assert output.stdout.split() == [str(name == "native"), f"kafkawire.sdk.records.engines.{modules[name]}"]
