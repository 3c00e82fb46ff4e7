"""Java's Admin, Kafka's tools and our Admin get the same outcomes from Apache Kafka 4.3.0 and the reference broker.

Method: take each case of the table (`admin_table/`) on both brokers at the same time, and compare what it returns,
prints or raises. A case that changes nothing is repeated while the outcomes differ, because Kafka's broker learns of a
change after its controller has answered. A difference has to be explained in the table, and an explained difference
has to exist.
"""

from __future__ import annotations

import difflib
import inspect
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkawire import Admin
from kafkawire.errors import LocalProtocolError
from tests.kafka.admin_table.cases import TOOLS, Case, Java, Ours, Scene, Tool
from tests.kafka.admin_table.explained import EXPLAINED, Explained
from tests.kafka.admin_table.sides import Side, our_side, their_side
from tests.kafka.admin_table.table import SCENES

pytestmark = pytest.mark.timeout(600)

CASES_MIN = 400

#: How long the outcomes of a case that changes nothing may differ.
PATIENCE_SECONDS = 10


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with their_side() as theirs, our_side() as ours:
        yield theirs, ours


ACTIONS = [case.action for scene in SCENES for case in scene.cases]

#: What our Admin has besides operations.
NO_OPERATIONS = {"client_instance_id", "close", "start"}


def test_the_table_is_complete(sides: tuple[Side, Side]) -> None:
    assert sides[0].operations - {each.call for each in ACTIONS if isinstance(each, Java)} == set()
    methods = {name for name, value in vars(Admin).items() if inspect.iscoroutinefunction(value)}
    operations = {name for name in methods if not name.startswith("_")} - NO_OPERATIONS
    assert operations - {each.call for each in ACTIONS if isinstance(each, Ours)} == set()
    assert TOOLS.keys() - {each.name for each in ACTIONS if isinstance(each, Tool)} == set()


def test_names() -> None:
    names = [(scene.name, case.name) for scene in SCENES for case in scene.cases]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert EXPLAINED.keys() - set(names) == set()
    assert len(names) >= CASES_MIN


@pytest.fixture(scope="module")
def played() -> list[Scene]:
    """The scenes that have been played."""
    return []


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def test_scene(sides: tuple[Side, Side], played: list[Scene], scene: Scene) -> None:
    # A scene builds on earlier ones, which have not been played if it was selected alone.
    for earlier in SCENES[len(played) : SCENES.index(scene)]:
        _play(sides, earlier)
        played.append(earlier)
    played.append(scene)
    findings = _play(sides, scene)
    assert not findings, "\n\n".join(findings)


def _play(sides: tuple[Side, Side], scene: Scene) -> list[str]:
    """Take the cases of a scene on both brokers; return the differences that are not explained."""
    findings = []
    with ExitStack() as stack, ThreadPoolExecutor(2) as both:
        if scene.cast is not None:
            for actors in both.map(scene.cast, [side.bootstrap for side in sides]):
                stack.enter_context(actors)
        for case in scene.cases:
            began = time.monotonic()
            explained = EXPLAINED.get((scene.name, case.name))
            try:
                repeats = case.action.is_read and explained is None
                theirs, ours = _outcomes(both, sides, case, repeats=repeats)
            except (RuntimeError, TypeError, AttributeError, LocalProtocolError) as error:
                findings.append(f"{case.name}: cannot be tried: {error}")
                continue
            _report(scene, case, theirs, ours, time.monotonic() - began)
            if explained is not None:
                if not _is_as_explained(explained, theirs, ours):
                    findings.append(f"{case.name}: not the difference that is explained:\n{_diff(theirs, ours)}")
            elif theirs != ours:
                findings.append(f"{case.name}:\n{_diff(theirs, ours)}")
    return findings


def _is_as_explained(explained: Explained, theirs: str, ours: str) -> bool:
    """Return whether each outcome has its part of the explained difference, and the other one does not."""
    return theirs != ours and _is_only_in(explained.theirs, theirs, ours) and _is_only_in(explained.ours, ours, theirs)


def _is_only_in(part: str, outcome: str, other: str) -> bool:
    return not part or (part in outcome and part not in other)


def _outcomes(both: ThreadPoolExecutor, sides: tuple[Side, Side], case: Case, *, repeats: bool) -> tuple[str, str]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        theirs, ours = both.map(lambda side: side.outcome(case), sides)
        if theirs == ours or not repeats or time.monotonic() > deadline:
            return theirs, ours


def _diff(theirs: str, ours: str) -> str:
    lines = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "Kafka", "ours", lineterm="", n=2)
    return "\n".join(lines)


def _report(scene: Scene, case: Case, theirs: str, ours: str, seconds: float) -> None:
    """Write an outcome to the file that KAFKAWIRE_TEST_OUTCOMES names, for those who add cases."""
    if path := os.environ.get("KAFKAWIRE_TEST_OUTCOMES"):
        with Path(path).open("a") as file:
            verdict = "equal" if theirs == ours else "DIFFERENT"
            file.write(f"== {scene.name} / {case.name}: {verdict}, {seconds:.2f} s\n{theirs}\n")
            if theirs != ours:
                file.write(f"-- diff\n{_diff(theirs, ours)}\n")
