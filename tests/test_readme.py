"""The code in the README and in the docstrings of the public modules runs.

Method: the Python block of the README is run as it stands, in a process of its own, and what it prints is compared with
its comments; the examples of docstrings, which assert what they show, are run among the names of their module.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from kafkawire.sdk.protocol.tables.enums import KAFKA_RELEASE

README = Path(__file__).parent.parent / "README.md"


def test_the_code_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    result = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    stored, record, request = result.stdout.splitlines()
    assert stored.startswith("RecordMetadata(topic='greetings', partition=0, offset=0, timestamp_ms=")
    assert record == "greetings 0 b'en' b'hello' (('tone', b'friendly'),)"
    assert request == "HeartbeatRequest(group_id='g', generation_id=7, member_id='m')"


@pytest.mark.parametrize(
    "name", ["kafkawire.errors", "kafkawire.protocol", "kafkawire.records", "kafkawire.sync", "kafkawire.testing"]
)
def test_the_example_of_a_module_runs(name: str) -> None:
    module = import_module(name)
    lines = (module.__doc__ or "").splitlines()
    example = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    assert example.count("\n") >= 1
    exec(compile(example, f"the docstring of {name}", "exec"), dict(vars(module)))


def test_it_names_the_release_of_the_schemas() -> None:
    assert f"Apache Kafka {KAFKA_RELEASE}" in README.read_text(encoding="utf-8")
