"""A file's problems are reported, up to a limit.

Method: report fewer problems than the limit, exactly as many, and more.
"""

from __future__ import annotations

import json

import pytest

from kafkawire.commands.inspection.dumping.limits import PROBLEMS_MAX
from kafkawire.commands.inspection.dumping.output import DEFAULT_KINDS, Output
from kafkawire.commands.inspection.dumping.problems import Problems
from kafkawire.sdk.storage.damage import DamagedContent


@pytest.mark.parametrize("more", [-1, 0, 1, 20])
def test_problems(more: int) -> None:
    written = bytearray()
    output = Output(written.extend, as_json=True, kinds=DEFAULT_KINDS)
    problems = Problems(output)
    for number in range(PROBLEMS_MAX + more - 1):
        problems.tell("a reason", number)
    problems.tell_damage(DamagedContent("another"))
    problems.end()
    output.flush()
    found = [(each["reason"], each["position"]) for each in map(json.loads, written.splitlines())]
    expected = [*(("a reason", number) for number in range(PROBLEMS_MAX + more - 1)), ("another", None)][:PROBLEMS_MAX]
    if more > 0:
        expected.append((f"{more} more problems in this file; only {PROBLEMS_MAX} are reported individually", None))
    assert found == expected
    assert output.damaged
