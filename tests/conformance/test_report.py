"""The report counts every case, shows failures, and is also available in machine-readable form.

Method: report on hand-built suites, and read the JUnit file back.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from kafkawire.conformance.report import Suite, summary, write_junit


def example() -> list[Suite]:
    good, bad = Suite("good"), Suite("bad")
    for number in range(3):
        good.add(f"case {number}", None)
    good.stricter["odd"] = 2
    good.seconds = 1.5
    for number in range(12):
        bad.add(f"case {number}", f"reason {number}")
    return [good, bad]


def test_lines() -> None:
    good, bad = example()
    assert list(good.lines()) == ["good: 3 passed, 0 failed, 2 refused on purpose (odd)"]
    good.changed = 4
    (line,) = good.lines()
    assert line.endswith(" (odd), 4 left out (changed in place by a later release)")
    lines = list(bad.lines())
    assert lines[:2] == ["bad: 0 passed, 12 failed", "    case 0: reason 0"]
    assert lines[-1] == "    and 2 more"


def test_summary() -> None:
    assert summary(example()) == "3 passed, 12 failed"


def test_junit(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    write_junit(example(), path)
    assert path.read_text("utf-8").startswith("<?xml version='1.0' encoding='utf-8'?>")
    good, bad = ElementTree.parse(path).getroot()
    assert (good.get("name"), good.get("time")) == ("good", "1.500")
    assert (good.get("tests"), good.get("failures"), len(good)) == ("3", "0", 1)
    assert (bad.get("tests"), bad.get("failures"), len(bad)) == ("12", "12", 12)
    failure = bad[11].find("failure")
    assert failure is not None
    assert failure.get("message") == "reason 11"
