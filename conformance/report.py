"""Collect the results of conformance cases, and write a line per suite, the failures, and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["Failure", "Suite", "summary", "write_junit"]

#: Maximum number of failures printed per suite; the JUnit file contains all of them.
_SHOWN_FAILURES = 10


@dataclass(slots=True)
class Failure:
    """A failed case and the reason."""

    case: str
    reason: str


@dataclass(slots=True)
class Suite:
    """The cases for one vector file or one API.

    Attributes:
        name: what was checked.
        passed: the number of cases that passed.
        failures: the cases that failed.
        stricter: the number of cases that Kafka accepts but this project refuses on purpose, keyed by kind; they count
            as passed.
        changed: the number of vectors left out because a later release changed the message without adding a version.
        seconds: the duration of the suite.
    """

    name: str
    passed: int = 0
    failures: list[Failure] = field(default_factory=list)
    stricter: dict[str, int] = field(default_factory=dict)
    changed: int = 0
    seconds: float = 0.0

    def add(self, case: str, failure: str | None) -> None:
        """Add the result of a case, which is None if it passed, and otherwise the problem."""
        if failure is None:
            self.passed += 1
        else:
            self.failures.append(Failure(case, failure))

    def lines(self) -> Iterable[str]:
        """Return the lines to print."""
        note = "".join(f", {count} refused on purpose ({kind})" for kind, count in self.stricter.items())
        note += f", {self.changed} left out (changed in place by a later release)" if self.changed else ""
        yield f"{self.name}: {self.passed} passed, {len(self.failures)} failed{note}"
        for failure in self.failures[:_SHOWN_FAILURES]:
            yield f"    {failure.case}: {failure.reason}"
        if len(self.failures) > _SHOWN_FAILURES:
            yield f"    and {len(self.failures) - _SHOWN_FAILURES} more"


def summary(suites: Iterable[Suite]) -> str:
    """Return the last line, `N passed, N failed`."""
    suites = tuple(suites)
    passed = sum(suite.passed for suite in suites)
    return f"{passed} passed, {sum(len(suite.failures) for suite in suites)} failed"


def write_junit(suites: Iterable[Suite], path: Path) -> None:
    """Write the results as JUnit XML: a test case for each failure, and one per suite for all passed cases."""
    root = ElementTree.Element("testsuites")
    for suite in suites:
        element = ElementTree.SubElement(
            root,
            "testsuite",
            name=suite.name,
            tests=str(suite.passed + len(suite.failures)),
            failures=str(len(suite.failures)),
            time=f"{suite.seconds:.3f}",
        )
        if suite.passed:
            ElementTree.SubElement(element, "testcase", classname=suite.name, name=f"{suite.passed} cases")
        for failure in suite.failures:
            case = ElementTree.SubElement(element, "testcase", classname=suite.name, name=failure.case)
            ElementTree.SubElement(case, "failure", message=failure.reason)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
