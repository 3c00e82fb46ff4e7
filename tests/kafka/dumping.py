"""Run Kafka's DumpLogSegments on files of either broker."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kafka.apache import run_tool

__all__ = ["dump"]

DUMP = "org.apache.kafka.tools.DumpLogSegments"


def dump(*options: str, files: list[Path]) -> str:
    """Dump files with Kafka's tool, and return its output.

    Complaints about segments that do not begin at offset 0 are ignored, since the tool also makes them about Kafka's
    own files; any other complaint fails the test.
    """
    assert files
    result = run_tool(DUMP, *options, "--files", ",".join(map(str, files)))
    complaints = re.sub(r"Non-consecutive offsets in .*/0*(\d+)\.log\n  -1 is followed by \1\n", "", result.stderr)
    assert (result.returncode, complaints) == (0, "")
    return result.stdout
